"""Run `check_compile` on a target, and return its result in a form that can be compared with the oracle's result."""

from __future__ import annotations

import traceback
from typing import Any

import torch
from torch import nn

from pytest_torch_compile import CompileCheckFailed, CompileReport, call, check_compile

from .targets import INFERENCE, TRAINING, Factory, built


def verdict(factory: Factory, mode: str, backend: str) -> dict[str, Any] | None:
    """The plugin's results: findings, breaks and recompiles, or the error if it crashed. None if there is nothing to
    train."""
    made = built(factory, mode)
    if made is None:
        return None
    calls = [call(*arguments) for arguments in made.calls]
    if mode == INFERENCE:
        calls = [one.under(torch.no_grad) for one in calls]
    before = state_before(made.target)
    try:
        report = check_compile(
            made.target,
            calls=calls,
            train=mode == TRAINING,
            fullgraph=None if mode == INFERENCE else False,
            backend=backend,
            diagnose="off",
        )
    except CompileCheckFailed as failed:
        report = failed.report
    except Exception as error:
        return {"crash": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", "trace": traceback.format_exc()[-1500:]}  # fmt: skip
    said = as_data(report)
    said["left"] = "" if before == state_before(made.target) else "the target is not as it was before the check"
    said["expect"] = list(made.expect)
    return said


def as_data(report: CompileReport) -> dict[str, Any]:
    seen = report.observation
    return {
        "kinds": sorted({finding.kind for finding in report.findings}),
        "findings": [f"{found.kind}: {found.subject} {found.message} {found.evidence}"[:400] for found in report.findings],
        "breaks": sorted({place for found in seen.graph_breaks for place in places(found.location)}),
        "reasons": [" ".join(found.reason.split())[:160] for found in seen.graph_breaks],
        "recompiles": len(seen.recompiles),
        "graphs": len(seen.graphs),
        "fallbacks": len(seen.fallbacks),
        "reference": report.numerics.reference,
        "leaves": report.numerics.leaves,
        "not_compared": list(report.numerics.not_compared),
        "remarks": report.remarks,
    }  # fmt: skip


def places(location: Any) -> list[str]:
    """The line of user code, and the line of library code that it called."""
    if location is None:
        return []
    return [f"{location.file}:{location.line}", *places(location.library)]


def state_before(target: Any) -> list[Any]:
    """A summary of the state that a check must restore: the sum of each parameter and buffer, whether it has a
    gradient, and whether the module is in training mode.
    """
    owner = getattr(target, "__self__", target)
    if not isinstance(owner, nn.Module):
        return []
    held = [*owner.parameters(), *owner.buffers()]
    usable = [leaf for leaf in held if not isinstance(leaf, torch.nn.parameter.UninitializedTensorMixin)]
    return [(str(leaf.detach().double().nan_to_num().abs().sum().item()), leaf.grad is None) for leaf in usable] + [
        owner.training
    ]
