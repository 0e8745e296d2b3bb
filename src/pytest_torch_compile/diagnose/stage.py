"""Find the first stage of torch.compile that fails, by trying backends that add one stage at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, get_args

import torch

from .._torch.compiling_flag import believing_to_be_compiled
from .._torch.support import CONSTRAINT_VIOLATION
from ..findings import CompileReport, WrongResult
from ..observation import Location
from .subject import Subject

# Findings that any stage can cause. Breaks and recompiles are not included: only dynamo, the first stage, causes them.
KINDS = {*get_args(WrongResult), "compile-error", "eager-fallback"}
STAGES = {
    "eager": "dynamo: it cannot trace the code, or the graph that it captured behaves differently from the code",
    "aot_eager": "AOTAutograd: the graph produces the correct result before functionalization and backward tracing",
    "aot_eager_decomp_partition": "a decomposition or the partitioner: the original ops produce the correct result",
    "inductor": "Inductor: its input graph is correct, so its lowering or the code that it generates is wrong",
}


def stage(subject: Subject) -> list[str]:
    """Find the first stage that causes a finding of the same kind as in the failed check, and return a line about it.
    If a branch on ``is_compiling()`` is the cause, return a line about this branch instead.
    """
    kinds, backend = subject.kinds & KINDS, subject.compiling.backend
    names = list(STAGES)
    if not kinds or subject.compiling.wrapper is not None or not isinstance(backend, str) or backend not in names:
        return []
    if backend == "eager":  # there is only one stage, but the user's code may be the cause
        return [line] if (line := _own_branch(subject, kinds)) else []
    # No stage is at fault if calls exceed the recompile limit, or the code specializes a size that is marked as
    # dynamic.
    if any(error.error == CONSTRAINT_VIOLATION for error in subject.report.observation.errors):
        return []
    if subject.report.fallbacks and subject.kinds <= {"eager-fallback", "recompile"}:
        return []
    passed: list[str] = []
    for name in names[: names.index(backend)]:
        report = subject.again(backend=name)
        if subject.shows(report, kinds):
            break
        if not subject.is_right_in(report, kinds):
            other = ", ".join(sorted({finding.kind for finding in report.findings})) if report else "it could not run"
            return [f"stage: unknown, because the check fails in a different way with backend {name}: {other}"]
        passed.append(name)
    first = names[len(passed)]
    subject.report.fault = replace(subject.report.fault, stage=first)
    if first == "eager" and (line := _own_branch(subject, kinds)):
        return [line]
    earlier = f" (passes with backend {', '.join(passed)})" if passed else ""
    return [f"stage: fails with backend {first}{earlier}. The cause is in {STAGES[first]}"]


def _own_branch(subject: Subject, kinds: Collection[str]) -> str:
    """Run eager code so that it takes the branches meant for compiled code. If this run has a finding of one of these
    kinds, return a line about the branches; otherwise, return an empty string.
    """
    places: list[Location] = []

    def eager_as_if_compiled(target: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with torch.compiler.set_stance("force_eager"), believing_to_be_compiled() as asked:
                try:
                    return target(*args, **kwargs)
                finally:
                    places.extend(asked)

        return run

    report = subject.again("eager", wrapper=eager_as_if_compiled, more={})
    if not places or report is None or not subject.shows(report, kinds):
        return ""
    where = ", ".join(dict.fromkeys(place.shown() for place in places))
    if _leaves(report, kinds) == _leaves(subject.report, kinds):
        return (
            f"stage: the cause is not in torch. The code branches on is_compiling() ({where}), and the eager run has "
            "the same findings when it takes the branch for compiled code"
        )
    # The branch affects the results, but the finding can have other causes.
    return (
        f"stage: unknown. The code branches on is_compiling() ({where}). When the eager run takes the branch "
        "for compiled code, it also fails, but with different findings; remove the branch and run the check again"
    )


def _leaves(report: CompileReport, kinds: Collection[str]) -> set[tuple[str, str, int]]:
    """Return a (kind, tensor, call) triple for each finding of these kinds and each call that has the finding."""
    return {(one.kind, one.subject, call) for one in report.findings if one.kind in kinds for call in one.calls or (0,)}
