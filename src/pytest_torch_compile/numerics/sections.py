"""The parts of a call record that are compared, each with its name and the kind its findings have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from .containers import as_tensor
from .metadata import plain_tensors
from .record import CallRecord
from .tree import Flat, Node, flatten

SectionName = Literal["output", "argument", "state", "kept", "grad", "input grad"]
SECTIONS: tuple[SectionName, ...] = ("output", "argument", "state", "kept", "grad", "input grad")


@dataclass(frozen=True)
class Section:
    """One part of one leg's record, taken apart."""

    name: SectionName
    flat: Flat


def section(record: CallRecord, name: SectionName) -> Section:
    """One part of a record, with readable paths."""
    if name == "output":
        return Section(name, flatten(record.output, "output"))
    if name == "argument":
        return Section(name, _arguments(record, record.arguments))
    if name == "state":
        return Section(name, _named({record.state_label(key): value for key, value in record.state.items()}))
    if name == "kept":
        return Section(name, record.kept)
    if name == "grad":
        return Section(name, _named({f"grad of {key}": value for key, value in record.grads.items()}))
    return Section(name, _named({f"grad of argument {key}": value for key, value in record.input_grads.items()}))


def before_the_call(record: CallRecord, name: SectionName) -> dict[str, torch.Tensor]:
    """What arguments or state were before the call, by the same paths; empty where not known."""
    if name == "argument" and record.pristine is not None:
        return _arguments(record, record.pristine).tensors
    if name == "state":
        return {record.state_label(key): value for key, value in record.initial_state.items()}
    if name == "kept":
        return dict(record.initial_kept)
    return {}


def plain_values(record: CallRecord) -> dict[str, torch.Tensor]:
    """Everything that can be measured in a record, as plain tensors by path."""
    values: dict[str, torch.Tensor] = {}
    for name in SECTIONS:
        for path, leaf in section(record, name).flat.leaves.items():
            tensor = as_tensor(leaf)
            if tensor is not None:
                values.update(plain_tensors(tensor, path))
    return values


def _named(values: Mapping[str, Any]) -> Flat:
    return Flat({path: Node(type(value), True, value) for path, value in values.items()})


def _arguments(record: CallRecord, arguments: Any) -> Flat:
    flat = Flat()
    args, kwargs = arguments if arguments is not None else ((), {})
    for position, value in enumerate(args):
        flat.nodes.update(flatten(value, record.argument_label(position)).nodes)
    for key, value in kwargs.items():
        flat.nodes.update(flatten(value, f"argument {key}").nodes)
    return flat
