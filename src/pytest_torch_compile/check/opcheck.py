"""``custom_ops=True``: run ``torch.library.opcheck`` on each ``torch.library`` op that the eager run calls."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import advice
from .._torch.custom_ops import CustomOps, Sample, has_formula, wrong_stride
from .._torch.error_text import error_summary
from .._torch.sandbox import sandbox
from ..findings import CompileUsageError, Finding
from ..legs.leg import Leg
from ..legs.work import Work
from ..numerics import flatten
from ..numerics.measure import bitwise_equal
from ..report.failure_text import count

FORMULA = "no backward formula"
_NO_FORMULA = "no autograd formula was registered"
# The last opcheck test repeats the checks of the other opcheck tests, so it fails if any of them fails.
TRACED = "test_aot_dispatch_dynamic"


@dataclass
class CheckedOps:
    """The results of checking a target's custom ops."""

    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """If the eager run inside the ``with`` block fails and an op has a finding, report the finding instead of
        raising the exception.
        """
        try:
            yield
        except CompileUsageError as error:
            if not self.findings:
                raise
            self.remarks.append(f"the compiled run was not compared with the eager run: {error}")


def check_ops(work: Work, checked: CheckedOps) -> None:
    """Run the calls eagerly, and check each custom op with the inputs that it receives."""
    with sandbox() as box:
        ops = CustomOps()
        leg = Leg(work)
        for ops.call in range(1, len(work.calls) + 1):
            with box.watching(leg.world.names), ops.watching():
                record = leg.run(ops.call - 1)
            if record.error is not None:
                break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for samples in ops.samples.values():
                _check_op(samples, work.trains, checked)
    counts = [f"{samples[0].op} ({count(len(samples), 'input set')})" for samples in ops.samples.values()]
    checked.remarks.append(
        f"custom ops checked: {', '.join(counts)}" if counts else "custom_ops: the eager run called no custom ops"
    )
    checked.remarks += [
        f"custom_ops: {op} received a tensor subclass, which opcheck does not support" for op in ops.subclasses
    ]
    for op, more in ops.left_out.items():
        checked.remarks.append(f"custom_ops: {count(more, 'more input set')} of {op} not checked")


def _check_op(samples: list[Sample], train: bool, checked: CheckedOps) -> None:
    """Add one finding for each opcheck test that fails. The finding shows the first set of inputs for which the test
    fails.
    """
    failing: dict[str, list[tuple[Sample, str]]] = {}
    for sample in samples:
        for clause, why in _failures(sample, train, checked).items():
            failing.setdefault(clause, []).append((sample, why))
    for clause, failures in failing.items():
        sample, why = failures[0]
        lines = [why, f"called with {sample.described()}"]
        if len(failures) > 1:
            lines.append(f"and with {count(len(failures) - 1, 'other input set')}")
        checked.findings.append(
            Finding(
                "custom-op",
                f"{sample.op} fails opcheck: {clause}",
                sample.location,
                "\n".join(lines),
                advice.CUSTOM_OPS[clause],
                calls=tuple(dict.fromkeys(sample.call for sample, _ in failures)),
                subject=str(sample.op),
            )
        )


def _failures(sample: Sample, train: bool, checked: CheckedOps) -> dict[str, str]:
    """Return the error of each failed opcheck test for one set of inputs, by test name."""
    # Gradients are tested only if the eager run used them, because many ops are only for inference.
    gradients = train and sample.wanted and sample.reached is not False
    results = torch.library.opcheck(sample.op, *sample.arguments(gradients=gradients), raise_exception=False)
    errors = {clause: error for clause, error in results.items() if isinstance(error, Exception)}
    failures = {clause: error_summary(error) for clause, error in errors.items()}
    if "test_faketensor" not in failures and (strides := wrong_stride(sample)):
        failures["test_faketensor"] = strides
    if gradients and "test_autograd_registration" not in failures and sample.floating_output:
        tensors = flatten((sample.args, sample.kwargs)).tensors.values()
        if not any(has_formula(sample.op, tensor.device.type) for tensor in tensors):
            failures[FORMULA] = (
                "an input requires a gradient, but the op has no backward formula, so gradients stop at this op"
            )
    if _NO_FORMULA in failures.get(TRACED, ""):
        failures[FORMULA] = failures.pop(TRACED)
    elif isinstance(errors.get(TRACED), AssertionError) and _differs_from_itself(sample):
        del failures[TRACED]
        checked.remarks.append(f"custom_ops: {sample.op} is not deterministic, so {TRACED} cannot test it")
    if TRACED in failures and len(failures) > 1:
        del failures[TRACED]  # this test fails whenever another opcheck test fails
    return failures


def _differs_from_itself(sample: Sample) -> bool:
    def run() -> dict[str, torch.Tensor]:
        args, kwargs = sample.arguments(gradients=False)
        result: Any = sample.op(*args, **kwargs)
        return flatten((result, args, kwargs)).tensors

    one, other = run(), run()
    return any(path not in other or not bitwise_equal(tensor, other[path]) for path, tensor in one.items())
