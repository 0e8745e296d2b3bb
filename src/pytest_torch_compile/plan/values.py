"""Compare the results of code that Inductor generated for a GPU with eager results. The planning process records each
call twice, once in eager and once in generated code, and the test process compares the two records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from .._torch.planning.valued import ValuedMode, outside, value_of, valued
from .._torch.sandbox import sandbox
from .._torch.warning_filters import calm
from ..check.judge import merged_over_calls
from ..check.leg_errors import machine_faults_named
from ..check.remarks import not_judged_by
from ..check.requirements import require_values
from ..findings import CompileUsageError, Finding
from ..legs import leg as legs
from ..legs.calls import Call
from ..legs.cotangents import cotangents
from ..legs.lazy_leg import LazyLeg
from ..legs.references import PerturbedLegs, ReferenceLeg
from ..legs.targets import argument_label, argument_names, modules_of
from ..numerics import CallRecord, Comparison, Flat, Node, Tolerances, compare_calls, flatten
from ..numerics.sections import arguments_of, sharing_in
from ..observation import Location

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

    def before(self, call: Call) -> None:
        """Start recording a call, and clear the gradients that earlier calls left on its arguments."""
        for tensor in flatten((call.args, dict(call.kwargs))).tensors.values():
            if tensor.is_leaf:
                tensor.grad = None
        with outside():
            self._before(call)

    def _before(self, call: Call) -> None:
        record = CallRecord(len(self.records) + 1, argument_names=self._names)
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
                named[f"{prefix}.{name}".lstrip(".").replace(legs.COMPILED, "")] = tensor
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
        return _with_tensors(self._values(flat), _copy)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """Copy a tensor, preserving its strides even if elements overlap."""
    storage = tensor.untyped_storage().clone()
    plain = torch.empty(0, dtype=tensor.dtype, device="cpu")
    plain.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return plain.requires_grad_(tensor.requires_grad)


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


def require_small_and_real(target: Any, calls: Sequence[Call]) -> None:
    """Require that all tensors of the target and its calls have values and are on the CPU. The sizes of these tensors
    are not checked.

    Raises:
        CompileUsageError: If a tensor has no values or is not on the CPU.
    """
    require_values(target, calls)
    tensors = [t for module in modules_of(target).values() for t in (*module.parameters(), *module.buffers())]
    tensors += [t for call in calls for t in flatten((call.args, dict(call.kwargs))).tensors.values()]
    elsewhere = {tensor.device.type for tensor in tensors} - {"cpu"}
    if elsewhere:
        raise CompileUsageError(
            f"values=True needs a model and inputs on the CPU, but some of their tensors are on {', '.join(elsewhere)}"
        )


@dataclass
class Judge:
    """Compares the records of the calls. If a comparison needs a reference run, such as eager in float64, the target
    also runs in this process on the CPU.
    """

    target: Any
    calls: Sequence[Call]
    train: bool | legs.Loss
    optimizer: Any
    not_observable: list[str] = field(default_factory=list)

    def findings(self, values: Values, locations: Mapping[str, Location | None]) -> list[Finding]:
        """Return the findings for faults in kernels and for differences from eager. ``locations`` maps the name of each
        kernel to its line of user code.
        """
        found = [
            Finding("numerics", f"kernel {name} {text}", locations.get(name), subject=name)
            for name, text in values.faults
        ]
        if values.unknown:
            message = "the values cannot be compared, because some of the code cannot run on the CPU"
            text = "\n".join(dict.fromkeys(values.unknown))
            return [*found, Finding("not-observable", message, evidence=text)]
        with machine_faults_named(), calm(), sandbox() as box:
            references = _References(self, values, box)
            comparisons = [
                references.compared(index, eager, planned)
                for index, (eager, planned) in enumerate(zip(values.eager, values.planned, strict=False))
            ]
            self.not_observable += references.not_judged()
        return found + merged_over_calls(finding for one in comparisons for finding in one.findings)


class _References:
    """The runs that serve as references, such as eager in float64. These runs take place on the CPU, and only if a
    comparison needs them.
    """

    def __init__(self, judge: Judge, values: Values, box: Any) -> None:
        calls = [call if judge.train else call.under(torch.no_grad) for call in judge.calls]
        self._work = legs.Work(judge.target, calls, judge.train, judge.optimizer, seed=SEED)
        self._values, self._box = values, box
        self._eager: legs.Leg | None = None
        self._reference = LazyLeg(lambda: ReferenceLeg(self._work, self._ran()))
        self._perturbed_legs = PerturbedLegs(self._work)
        self._repeat = LazyLeg(lambda: legs.Leg(self._work, self._ran().world))

    def compared(self, index: int, eager: CallRecord, planned: CallRecord) -> Comparison:
        """Compare the two records of one call."""
        return compare_calls(
            eager,
            planned,
            reference=partial(self._reference.record, index),
            repeat=partial(self._repeat.record, index),
            perturbed=partial(self._perturbed, index),
            tolerances=Tolerances(),
        )

    def _perturbed(self, index: int) -> Iterable[CallRecord]:
        try:
            self._perturbed_legs.world = self._ran().world
        except CompileUsageError as error:
            self._perturbed_legs.why_not = error
            return ()
        return self._perturbed_legs.records(index)

    def not_judged(self) -> Iterable[str]:
        """Return a line for each kind of reference run that failed."""
        return not_judged_by(self._reference.why_not, self._perturbed_legs.why_not)

    def _ran(self) -> legs.Leg:
        """Run all calls in eager in this process, unless they have already run, and return this eager run.

        Raises:
            CompileUsageError: If this run cannot be a reference, because it draws different random numbers from the
                eager run in the planning process.
        """
        if self._eager is None:
            leg = legs.Leg(self._work, holds_records=True)
            for index, there in enumerate(self._values.eager):
                with self._box.watching(leg.world.names):
                    here = leg.run(index)
                if "cpu" in here.rng and not torch.equal(here.rng["cpu"], there.rng["cpu"]):
                    raise CompileUsageError("this process draws different random numbers than the planning process")
            self._eager = leg
        return self._eager
