"""Determine whether results depend on the other rows in the batch, on the run or on the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from .. import advice
from .._torch import canary
from .._torch.deviations import deviations
from .._torch.error_text import usage_error
from ..check.leg_errors import error_findings
from ..events import doing
from ..findings import CompileReport, Finding
from ..numerics.tolerances import Tolerance
from ..report.failure_text import number
from .compilation import not_compiled
from .differences import Compared, Difference, Pair, compared, worst_of
from .observed import RUNS, Observed, RaisedInCall, Subject

PROPERTIES = ("batch", "run", "process")


@dataclass
class Invariance:
    """The result for one entry of ``over``. ``largest`` is the largest difference, ``leaf`` is the path of the output
    with this difference, and ``module`` is the first module whose output differs, if known.
    """

    over: str
    equal: bool
    largest: float = 0.0
    leaf: str = ""
    module: str = ""


@dataclass
class InvarianceReport(CompileReport):
    """The report of ``check_invariance``, with a result for each entry of ``over``."""

    results: list[Invariance] = field(default_factory=list)


def add_dependence(report: InvarianceReport, subject: Subject, tolerance: Tolerance, ways: Sequence[str]) -> None:
    """Run the target in eager and in compiled code, and add the results and findings for each way to the report."""
    try:
        runs = eager = replace(subject, compiling=None).observe()
    except RaisedInCall as raised:
        which = f"row {list(subject.rows)[raised.number - RUNS - 1]} on its own" if raised.number > RUNS else "the call"
        raise usage_error(f"{which} raises an exception in eager: {raised}", raised.error) from None
    if subject.compiling is not None:
        settings_changed, observable = deviations(), canary.observer().seen
        try:
            runs = subject.observe()
        except RaisedInCall as raised:
            report.findings = error_findings(raised.error)
            return
        report.observation = runs.seen
        report.observation.undecided += observable.undecided
        report.observation.not_observable += observable.not_observable
        report.findings = not_compiled(runs.seen, settings_changed)
        if report.findings:
            return
    dependence = _Dependence(subject, tolerance, runs.calls, eager.calls)
    for way in ways:
        result, findings = dependence.on(way)
        report.results.append(result)
        report.findings += findings
    verdicts = ", ".join(f"{result.over}: {_verdict(result)}" for result in report.results)
    report.remarks += [*dependence.remarks, f"invariance: {verdicts}"]


def _verdict(result: Invariance) -> str:
    if result.equal:
        return "equal"
    return "different" if result.leaf else "not compared"


@dataclass
class _Dependence:
    """Compares the runs of ``subject`` that must be equal. ``seen`` contains the runs of the subject, and ``eager`` its
    runs in eager. ``remarks`` lists outputs that cannot be compared.
    """

    subject: Subject
    tolerance: Tolerance
    seen: Sequence[Observed]
    eager: Sequence[Observed]
    remarks: list[str] = field(default_factory=list)

    def on(self, way: str) -> tuple[Invariance, list[Finding]]:
        """Return whether the results are the same over one of the ``PROPERTIES``, and the findings."""
        with doing(f"checking whether results depend on the {way}"):
            pairs = _pairs(way, self.subject, self.seen)
            if isinstance(pairs, Finding):
                return Invariance(way, False), [pairs]
            results = self._compared(pairs)
            self._note_what_is_left_out(results[0])
            found = worst_of(results)
            if found is not None:
                module = _first_module(way, self.subject, self.tolerance)
                result = Invariance(way, False, found.largest, found.path, module)
                return result, [self._finding(way, found, module)]
            if not any(result.says_something for result in results):
                return Invariance(way, False), [_not_observable(way, results[0])]
            return Invariance(way, True), []

    def _compared(self, pairs: Sequence[Pair]) -> list[Compared]:
        return [compared(pair, pair.first.output, pair.other.output, self.tolerance) for pair in pairs]

    def _note_what_is_left_out(self, result: Compared) -> None:
        """Add a remark about the outputs that were not compared."""
        notes = []
        if result.without_rows:
            notes.append(f"no batch dimension, so not compared row by row: {', '.join(result.without_rows)}")
        if result.others:
            notes.append(f"cannot be compared: {_typed(result.others)}")
        self.remarks += [note for note in notes if note not in self.remarks]

    def _finding(self, way: str, found: Difference, module: str) -> Finding:
        evidence = [found.text]
        if isinstance(self.subject.target, torch.nn.Module):
            evidence.append(f"first module that differs: {module}" if module else _NO_MODULE)
        in_eager: Difference | None = found
        if self.subject.compiling is not None:
            pairs = _pairs(way, replace(self.subject, compiling=None), self.eager)
            in_eager = None if isinstance(pairs, Finding) else worst_of(self._compared(pairs))
            too = f"the largest difference is {number(in_eager.largest)} at {in_eager.path}" if in_eager else ""
            evidence.append(f"the eager results also differ: {too}" if too else "eager: equal")
        hints = advice.VARIANT_IN_EAGER if in_eager is not None and not in_eager.is_rounding else advice.VARIANT
        return Finding(
            "invariance",
            f"{found.path} {_DIFFERS[way]}",
            evidence="\n".join(evidence),
            hint=hints[way],
            subject=found.path,
            measure="largest difference",
            measured=found.largest,
            limit=found.limit,
        )


_DIFFERS = {
    "batch": "differs between a row on its own and the same row in the batch",
    "run": "differs between two runs of the same code",
    "process": "differs between this process and a fresh process",
}
_NO_MODULE = (
    "the first module that differs is unknown: no module's output differs when the outputs of all modules are recorded "
    "(recording affects which ops are fused)"
)


def _not_observable(way: str, result: Compared) -> Finding:
    """Return the finding for a target of which no output can be compared."""
    message = "the target returns no value that can be compared; return tensors, arrays or numbers"
    if way == "batch":
        message = "no output has a batch dimension, so rows cannot be compared with the batch"
    evidence = f"returned: {_typed(result.others)}" if result.others else ""
    return Finding("not-observable", message, evidence=evidence)


def _typed(others: Mapping[str, str]) -> str:
    return ", ".join(f"{path} ({kind})" for path, kind in others.items())


def _pairs(way: str, subject: Subject, seen: Sequence[Observed], *, modules: bool = False) -> list[Pair] | Finding:
    """Return the pairs of runs whose outputs must be equal, or a finding if the fresh process returns no result."""
    if way == "run":
        return [Pair(f"run {number + 1}", seen[0], seen[number]) for number in range(1, RUNS)]
    if way == "batch":
        size = max(subject.rows) + 1  # the last row is always checked
        alone = zip(subject.rows, seen[RUNS:], strict=True)
        return [Pair(f"row {row}", seen[0], run, row, size) for row, run in alone]
    there = subject.observe_in_fresh_process(modules=modules)
    if isinstance(there, Finding):
        return there
    if subject.compiling is not None and not modules and (missing := not_compiled(there.seen)):
        return replace(missing[0], message=f"in the fresh process, {missing[0].message}")
    return [Pair("the fresh process", seen[0], there.calls[0])]


def _first_module(way: str, subject: Subject, tolerance: Tolerance) -> str:
    """Return the first module whose output differs when all module outputs are recorded, or an empty string if no
    output differs.
    """
    if not isinstance(subject.target, torch.nn.Module):
        return ""
    try:
        pairs = _pairs(way, subject, subject.observe(modules=True).calls, modules=True)
    except RaisedInCall:
        return ""
    if isinstance(pairs, Finding):
        return ""
    firsts = [place for pair in pairs if (place := _differing_module(pair, tolerance)) is not None]
    return min(firsts)[1] if firsts else ""


def _differing_module(pair: Pair, tolerance: Tolerance) -> tuple[int, str] | None:
    """Return the position (in execution order) and the name of the first module whose output differs, or None if no
    output differs.
    """
    for position, ((name, ours), (_, theirs)) in enumerate(zip(pair.first.modules, pair.other.modules, strict=False)):
        if compared(pair, ours, theirs, tolerance).differences:
            return position, name
    return None
