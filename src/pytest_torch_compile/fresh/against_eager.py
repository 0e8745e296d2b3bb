"""Build an artifact, run it in a fresh process, and compare its results with the eager results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .. import advice
from .._torch import canary
from .._torch.error_text import error_summary
from .._torch.trace import TraceObserver
from ..check.describe import shapes_text
from ..check.judge import not_observable
from ..findings import CallReport, CompileReport, Finding, merged_over_calls
from ..legs.calls import Call
from ..legs.eager import Eager
from ..legs.extra_legs import ExtraLegs
from ..numerics import CallRecord, Comparison, Flat, Tolerances, compare_call, flatten
from ..observation import Graph
from ..report.failure_text import count
from .answers import Answer, Answers, answers_of
from .building import Artifact, build


@dataclass
class ArtifactReport(CompileReport):
    """The result of ``check_artifact``. ``via`` is the kind of artifact, ``bytes`` its size, ``build_seconds`` the time
    to build it in this process, and ``load_seconds`` the time to load it in the fresh process.
    """

    via: str = ""
    bytes: int = 0
    build_seconds: float = 0.0
    load_seconds: float = 0.0


def compare_with_eager(
    report: ArtifactReport, artifact: Artifact, eager: Eager, timeout: float, tolerances: Tolerances
) -> None:
    """Build the artifact, load it in a fresh process, compare its results with those of the eager run, and add the
    findings to the report.
    """
    started = time.perf_counter()
    with TraceObserver() as building:
        report.findings = build(artifact, eager.leg.world)
    if report.findings:
        return
    report.build_seconds, report.bytes = time.perf_counter() - started, artifact.file.stat().st_size
    found = answers_of(artifact, [record.output for record in eager.records], timeout)
    if isinstance(found, Finding):
        report.findings = [found]
        return
    report.load_seconds = found.load_seconds
    may_truncate = artifact.via != "export" and building.generated_products is not False
    _add_comparison(report, artifact, eager, found, tolerances, may_truncate=may_truncate)
    report.remarks.append(
        f"artifact: {report.bytes / 1e6:.2f} MB, built in {report.build_seconds:.1f} s, "
        f"loaded in {report.load_seconds:.2f} s"
    )


def _add_comparison(
    report: CompileReport,
    artifact: Artifact,
    eager: Eager,
    found: Answers,
    tolerances: Tolerances,
    *,
    may_truncate: bool,
) -> None:
    """Compare the artifact's results with the eager results, and add the findings and the call table to the report.
    ``may_truncate`` tells whether the artifact may truncate operands to TF32 (see ``ExtraLegs``).
    """
    report.observation = canary.observer().seen
    extra_legs = ExtraLegs(artifact.work, lambda: eager.leg, lambda: may_truncate)
    comparisons = [
        _compared(artifact, extra_legs, here, there, tolerances)
        for here, there in zip(eager.records, found.calls, strict=True)
    ]
    report.findings = merged_over_calls(finding for one in comparisons for finding in one.findings)
    report.findings += _compiled_after_loading(found.graphs) + not_observable(report.observation.undecided)
    report.calls = [
        _row(call, artifact.work.target, here, there)
        for call, here, there in zip(artifact.work.calls, eager.records, found.calls, strict=True)
    ]


def _compared(
    artifact: Artifact, extra_legs: ExtraLegs, here: CallRecord, there: Answer, tolerances: Tolerances
) -> Comparison:
    """Compare the artifact's result for one call with the eager result."""
    if here.error is not None or there.refused is not None:
        return Comparison(_refusals(here, there), raised=True)
    # State and random state are not compared: a model's state is inside the artifact, and each process has its own
    # random state.
    apart: dict[str, Any] = dict(
        state={}, initial_state={}, grads={}, input_grads={}, kept=Flat(), kept_at_start=Flat(), initial_kept={}
    )
    compared = replace(here, **apart, rng={}, sharing=None)
    answered = replace(compared, output=there.output, arguments=there.arguments)
    comparison = compare_call(compared, answered, extra_legs.of_call(here.number - 1), tolerances)
    calls = artifact.work.calls
    fixed = not artifact.work.dynamic_dims and _sizes(calls[here.number - 1]) != _sizes(calls[0])
    comparison.findings = [
        replace(one, hint=advice.ARTIFACT_SIZES if fixed else advice.for_artifact(one.hint, artifact.via))
        for one in comparison.findings
    ]
    return comparison


def _sizes(call: Call) -> list[torch.Size]:
    return [tensor.shape for tensor in flatten((call.args, dict(call.kwargs))).tensors.values()]


def _refusals(here: CallRecord, there: Answer) -> list[Finding]:
    """Return a finding if only the eager model or only the artifact raises an exception. If both raise an exception,
    the two exceptions are not compared.
    """
    if here.error is not None and there.refused is None:
        message = f"eager raises {type(here.error).__name__}, but the artifact returns a result"
        evidence, hint = error_summary(here.error), advice.ONLY_EAGER_RAISES
    elif here.error is None and there.refused is not None:
        message = f"the artifact rejects a call that works in eager: {there.refused.type}"
        state = "GLOBAL_STATE changed" in there.refused.text  # as in dynamo's message about the failed guard
        evidence, hint = there.refused.text, advice.ARTIFACT_STATE if state else advice.ARTIFACT_REFUSES
    else:
        return []
    lines = "\n".join(evidence.splitlines()[:6])
    return [Finding("exception", message, evidence=lines, hint=hint, calls=(here.number,))]


def _compiled_after_loading(graphs: Sequence[Graph]) -> list[Finding]:
    """Return a finding if anything was compiled in the process that loaded the artifact."""
    if not graphs:
        return []
    calls = tuple(sorted({graph.call for graph in graphs if graph.call}))
    message = f"{count(len(graphs), 'graph')} compiled in the process that loaded the artifact, 0 allowed"
    frames = "\n".join(dict.fromkeys(f"{graph.frame}: {count(len(graph.ops), 'op')}" for graph in graphs))
    return [
        Finding(
            "recompile",
            message,
            None,
            frames,
            advice.COMPILES_AFTER_LOADING,
            calls=calls,
            measured=len(graphs),
            limit=0,
        )
    ]


def _row(call: Call, target: Any, here: CallRecord, there: Answer) -> CallReport:
    """Return a call's row in the call table."""
    both = ", as in eager" if here.error is not None else ""
    outcome = "built from this call, ran" if here.number == 1 else "ran"
    if there.refused is not None:
        outcome = f"rejected{both}"
    return CallReport(call.label or f"call {here.number}", shapes_text(call, target), outcome)
