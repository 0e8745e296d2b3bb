"""Record the calls of a run on fake tensors, with the values that the planning process computes for these tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .._torch.planning.valued import ValuedMode, outside, value_of, valued
from ..legs.calls import Call
from ..legs.cotangents import cotangents
from ..legs.leg import COMPILED
from ..legs.targets import argument_label, argument_names, modules_of
from ..numerics import CallRecord, Flat, Node, flatten
from ..numerics.sections import arguments_of, sharing_in

SEED = 0


@dataclass
class Values:
    """The records of the calls in eager and in generated code, the reasons why values are unknown, and the faults in
    kernels, such as out-of-bounds accesses.
    """

    eager: list[CallRecord] = field(default_factory=list)
    planned: list[CallRecord] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)


class Recorder:
    """Records the calls of one run, in eager or in generated code. The run uses fake tensors; the
    records contain the values that ``ValuedMode`` computed for them.
    """

    def __init__(self, mode: ValuedMode, target: Any) -> None:
        self.records: list[CallRecord] = []
        self._mode, self._target, self._names = mode, target, argument_names(target)

    def before(self, call: Call, number: int) -> None:
        """Start recording call ``number`` (from 1), and clear the gradients that earlier calls left on arguments."""
        for tensor in flatten((call.args, dict(call.kwargs))).tensors.values():
            if tensor.is_leaf:
                tensor.grad = None
        with outside():
            self._before(call, number)

    def _before(self, call: Call, number: int) -> None:
        record = CallRecord(number, argument_names=self._names)
        record.pristine = self._copied(arguments_of(record, call.args, call.kwargs))
        record.initial_state = self._copied(_flat(self._state())).tensors
        self.records.append(record)

    def after(self, call: Call, output: Any) -> None:
        """Finish recording a call that returned ``output``."""
        with outside():
            self._after(call, output)

    def _after(self, call: Call, output: Any) -> None:
        record, inputs = self.records[-1], dict[str, Any]()
        record.parameters = frozenset(
            name for name, one in self._state().items() if isinstance(one, torch.nn.Parameter)
        )
        record.arguments = self._values(arguments_of(record, call.args, call.kwargs))
        record.output = self._values(flatten(output))
        record.state = self._values(_flat(self._state())).tensors
        record.sharing = sharing_in(record)
        record.arguments, record.output = self._copied(record.arguments), self._copied(record.output)
        record.state = self._copied(_flat(record.state)).tensors
        named = {argument_label(self._names, i): value for i, value in enumerate(call.args)} | dict(call.kwargs)
        for name, value in named.items():
            inputs |= flatten(value, name).tensors
        leaves = {name: one for name, one in inputs.items() if one.is_leaf and one.requires_grad}
        parameters = {name: one for name, one in self._state().items() if name in record.parameters}
        record.input_grads = self._copied(_flat({name: one.grad for name, one in leaves.items()})).leaves
        record.grads = self._copied(_flat({name: one.grad for name, one in parameters.items()})).leaves
        record.rng = {"cpu": torch.get_rng_state()}

    def cotangents(self, outputs: Sequence[torch.Tensor], index: int) -> list[torch.Tensor]:
        """Return the gradients of ``outputs`` from which the backward pass of call ``index`` starts. The eager run and
        the generated code use equal gradients.
        """
        made = [torch.empty_like(tensor) for tensor in outputs]
        if not all(valued(tensor) for tensor in outputs):  # ``_value`` reports outputs without values
            return made
        with outside():
            drawn = cotangents([value_of(tensor).detach() for tensor in outputs], SEED + index)
            for tensor, value in zip(made, drawn, strict=True):
                value_of(tensor).copy_(value)
        return made

    def _state(self) -> dict[str, torch.Tensor]:
        named: dict[str, torch.Tensor] = {}
        for prefix, module in modules_of(self._target).items():
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                named[f"{prefix}.{name}".lstrip(".").replace(COMPILED, "")] = tensor
        return named

    def _values(self, flat: Flat) -> Flat:
        return _with_tensors(flat, self._value)

    def _value(self, tensor: torch.Tensor) -> torch.Tensor:
        if not valued(tensor):
            self._mode.unknown.append("the values of a result tensor are unknown")
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        value = value_of(tensor).detach()
        return value.requires_grad_(tensor.requires_grad) if value.is_floating_point() else value

    def _copied(self, flat: Flat) -> Flat:
        def copy(tensor: torch.Tensor) -> torch.Tensor:
            # The storage is copied, and not the tensor, to preserve the strides even if elements overlap.
            storage = tensor.untyped_storage().clone()
            plain = torch.empty(0, dtype=tensor.dtype, device="cpu")
            plain.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
            return plain.requires_grad_(tensor.requires_grad)

        return _with_tensors(self._values(flat), copy)


def _with_tensors(flat: Flat, change: Callable[[torch.Tensor], torch.Tensor]) -> Flat:
    return Flat(
        {
            path: Node(torch.Tensor, True, change(node.value))
            if node.is_leaf and isinstance(node.value, torch.Tensor)
            else node
            for path, node in flat.nodes.items()
        }
    )


def _flat(named: Mapping[str, Any]) -> Flat:
    return Flat({name: Node(type(value), True, value) for name, value in named.items()})
