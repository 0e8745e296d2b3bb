"""The parts of a call record that are compared, with their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import torch

from .aliasing import Sharing, sharing
from .containers import as_tensor
from .metadata import plain_tensors
from .record import CallRecord
from .tree import Flat, Node, flatten

SectionName = Literal["output", "argument", "state", "kept", "grad", "input grad"]
SECTIONS: tuple[SectionName, ...] = get_args(SectionName)
GRADIENTS: tuple[SectionName, ...] = ("grad", "input grad")


def section(record: CallRecord, name: SectionName) -> Flat:
    """Return one part of a record, flattened, with readable paths."""
    if name == "output":
        return record.output if isinstance(record.output, Flat) else flatten(record.output, "output")
    if name == "argument":
        return _arguments(record, record.arguments)
    if name == "kept":
        return record.kept
    if name == "state":
        named: dict[str, Any] = {record.state_label(key): value for key, value in record.state.items()}
    elif name == "grad":
        named = {f"grad of {key}": value for key, value in record.grads.items()}
    else:
        # An argument without a name is called "argument 0".
        labels = {key: key if key.startswith("argument ") else f"argument {key}" for key in record.input_grads}
        named = {f"grad of {labels[key]}": value for key, value in record.input_grads.items()}
    return Flat({path: Node(type(value), True, value) for path, value in named.items()})


def before_the_call(record: CallRecord, name: SectionName) -> Mapping[str, torch.Tensor]:
    """Return the arguments or state before the call, under the same paths as after the call; empty if unknown."""
    if name == "argument" and record.pristine is not None:
        return _arguments(record, record.pristine).tensors
    if name == "state":
        initial = record.initial_state.items()
        return {record.state_label(key): value for key, value in initial if key not in record.overwritten}
    known = record.initial_kept.items() if name == "kept" else ()
    return {path: value for path, value in known if path not in record.overwritten}


def plain_values(record: CallRecord) -> dict[str, torch.Tensor]:
    """Return all values in a record whose errors can be measured, as strided tensors keyed by path."""
    values: dict[str, torch.Tensor] = {}
    for name in SECTIONS:
        for path, leaf in section(record, name).leaves.items():
            if (tensor := as_tensor(leaf)) is not None:
                values.update(plain_tensors(tensor, path))
    return values


def sharing_in(record: CallRecord) -> Sharing:
    """Return which outputs share memory with arguments, parameters, buffers or other outputs."""
    if record.sharing is not None:
        return record.sharing
    others = section(record, "argument").tensors | section(record, "state").tensors
    return sharing(section(record, "output").tensors, others)


def arguments_of(record: CallRecord, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Flat:
    """Return the flattened arguments of a call, under the names used in messages."""
    flat = Flat()
    for position, value in enumerate(args):
        flat.nodes.update(flatten(value, record.argument_label(position)).nodes)
    for key, value in kwargs.items():
        flat.nodes.update(flatten(value, f"argument {key}").nodes)
    return flat


def _arguments(record: CallRecord, arguments: Any) -> Flat:
    if isinstance(arguments, Flat):
        return arguments
    return Flat() if arguments is None else arguments_of(record, *arguments)
