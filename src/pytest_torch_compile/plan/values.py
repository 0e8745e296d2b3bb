"""Compare the results of code that Inductor generated for a GPU with eager results. The planning process records each
call twice, once in eager and once in generated code (``recorder.py``), and the test process compares the two records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch

from .._torch.sandbox import Sandbox, sandbox
from ..check.expected_exceptions import require_expected
from ..check.leg_errors import machine_faults_named
from ..check.requirements import require_values
from ..findings import CompileUsageError, Finding, merged_over_calls
from ..legs.calls import Call
from ..legs.eager import eager_run
from ..legs.extra_legs import ExtraLegs
from ..legs.leg import Leg
from ..legs.targets import modules_of
from ..legs.work import Loss, Work
from ..numerics import CallRecord, Tolerances, compare_call, flatten
from ..observation import Location
from .recorder import SEED, Values


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
    train: bool | Loss
    optimizer: Any
    not_observable: list[str] = field(default_factory=list)

    def findings(self, values: Values, locations: Mapping[str, Location | None]) -> list[Finding]:
        """Return the findings for faults in kernels and for differences from eager. ``locations`` maps the name of each
        kernel to its line of user code.

        Raises:
            CompileUsageError: If a call that is expected to raise an exception returns in eager.
        """
        found = [
            Finding("numerics", f"kernel {name} {text}", locations.get(name), subject=name)
            for name, text in values.faults
        ]
        if values.unknown:
            message = "the values cannot be compared, because some of the code cannot run on the CPU"
            text = "\n".join(dict.fromkeys(values.unknown))
            return [*found, Finding("not-observable", message, evidence=text)]
        for record in values.eager:  # a call that raises an exception has no record
            require_expected(self.calls[record.number - 1], record.number, None)
        with machine_faults_named(), sandbox() as box:
            calls = [call if self.train else call.under(torch.no_grad) for call in self.calls]
            work = Work(self.target, calls, self.train, self.optimizer, seed=SEED)
            extra_legs = ExtraLegs(work, cache(partial(_eager_here, work, box, values.eager)))
            planned = {record.number: record for record in values.planned}
            comparisons = [
                compare_call(eager, planned[eager.number], extra_legs.of_call(eager.number - 1), Tolerances())
                for eager in values.eager
                if eager.number in planned
            ]
            self.not_observable += extra_legs.not_judged()
        return found + merged_over_calls(finding for one in comparisons for finding in one.findings)


def _eager_here(work: Work, box: Sandbox, there: Sequence[CallRecord]) -> Leg:
    """Run all calls in eager in this process, on the CPU. ``there`` contains the records of the eager run in the
    planning process.

    Raises:
        CompileUsageError: If this run cannot be a reference, because it draws different random numbers from the eager
            run in the planning process.
    """
    eager = eager_run(work, box, beyond_errors=True)
    for other in there:
        own = eager.records[other.number - 1]
        if "cpu" in own.rng and not torch.equal(own.rng["cpu"], other.rng["cpu"]):
            raise CompileUsageError("this process draws different random numbers than the planning process")
    return eager.leg
