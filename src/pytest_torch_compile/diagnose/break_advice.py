"""Find fixes for graph breaks: changes to the code or to torch's settings that are suggested only if a trial run
succeeds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._torch.breaks import may_be_backends
from .._torch.capture import DYNAMIC_OUTPUTS, SCALARS, capturing, disabled_functions, enabled, written
from .._torch.sandbox import kept_rng
from .._torch.user_lines import is_library
from ..findings import CompileReport
from ..legs.targets import modules_of
from ..observation import GraphBreak, file_line
from ..report.failure_text import count
from .first_call import ADVICE, set_up
from .rewrites import (
    Rewrite,
    as_tensor,
    computed_outside,
    in_force,
    left_out,
    rewrites,
    with_cond,
    with_disabled,
    with_where,
    without_context,
)
from .subject import MORE_TIME, OutOfTime, Subject

MOST = 8  # maximum number of diagnosed breaks
NAMED_LOSS = "ForCausalLM"  # the loss function that transformers uses for a model that does not choose one


@dataclass(frozen=True)
class Change:
    """A possible change to the code or to torch's settings. ``disables`` is true if the change only disables
    compilation of a called function, in which case the graph still breaks at the call.
    """

    what: str
    rewrite: Rewrite | None = None
    capture: str = ""
    enables: tuple[Any, ...] = ()
    names_loss: bool = False
    eager_first: bool = False
    disables: bool = False


def break_advice(subject: Subject) -> list[str]:
    """For each break for which a fix was found, return a line about the first change that removes the break. If the
    check passes with all of these changes and with its original backend, the last line reports this result.
    """
    lines: list[str] = []
    if "graph-break" in subject.kinds and subject.compiling.wrapper is None:
        try:
            _try_changes(subject, lines)
        except OutOfTime:
            if not lines:
                raise
            lines.append(f"{subject.ended} before it could try more fixes for graph breaks: {MORE_TIME}")
    return lines


def _try_changes(subject: Subject, lines: list[str]) -> None:
    chosen: list[Change] = []
    best = subject.report
    if not subject.compiling.has_backend("eager") and any(map(may_be_backends, best.graph_breaks)):
        # Trials run with the backend "eager", so they cannot be compared with breaks that another backend caused.
        best = _tried(subject, [], backend="eager") or best
    to_try, unhelped = deque(subject.report.graph_breaks[:MOST]), list[GraphBreak]()
    while to_try:
        broken = to_try.popleft()
        if not _has(best, broken):
            continue  # an earlier change removed this break as well
        for change in _candidates(subject, broken):
            report = _tried(subject, [*chosen, change], backend="eager")
            if report is not None and _helps(subject, best, report, broken, change):
                chosen.append(change)
                best = report
                how = "tried" if subject.compiling.has_backend("eager") else "tried with backend eager"
                lines.append(f"{how}: {change.what}: {_result(subject, report)}")
                to_try += unhelped  # a break may need two changes together
                unhelped = []
                break
        else:
            unhelped.append(broken)
    if not chosen or any(change.disables for change in chosen) or subject.compiling.has_backend("eager"):
        return
    report = _tried(subject, chosen)
    if report is not None and not report.findings:
        together = (
            "all of these changes together" if len(chosen) > 1 else lines.pop().split(": ", 1)[1].rsplit(": ", 1)[0]
        )
        lines.append(f"tried: {together}: {_result(subject, report)}, and no other findings")


def _result(subject: Subject, report: CompileReport) -> str:
    return f"{count(len(report.graph_breaks), 'graph break')} instead of {len(subject.report.graph_breaks)}"


def _helps(subject: Subject, best: CompileReport, report: CompileReport, broken: GraphBreak, change: Change) -> bool:
    """Return whether the trial ``report`` has fewer breaks than ``best``, no additional recompiles and no new kinds of
    findings. The break ``broken`` must be gone, unless the change intentionally keeps it.
    """
    if len(report.recompiles) > len(best.recompiles):
        return False
    if {finding.kind for finding in report.findings} - subject.kinds or not report.graphs:
        return False
    fewer = len(report.graph_breaks) < len(best.graph_breaks)
    return fewer and (change.disables or not _has(report, broken))


def _has(report: CompileReport, broken: GraphBreak) -> bool:
    return broken.fingerprint in {one.fingerprint for one in report.graph_breaks}


def _tried(subject: Subject, changes: Sequence[Change], backend: str | None = None) -> CompileReport | None:
    """Run the check with these changes, which apply only to the compiled run. The eager run uses the original code, so
    the check fails if a change alters the results.
    """
    compiling = subject.compiling
    if backend is not None:
        compiling = replace(compiling, backend=backend, mode=None, options=None)
    # With fullgraph=True, the remaining breaks would raise an exception.
    compiling = compiling.relaxed() if backend is not None else compiling
    written_so = [change.rewrite for change in changes if change.rewrite is not None]
    switches = tuple(change.capture for change in changes if change.capture)
    functions = [function for change in changes for function in change.enables]

    def compile_changed(target: Any) -> Callable[..., Any]:
        compiled, started = compiling(target), False

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal started
            if not started and any(change.eager_first for change in changes):
                with kept_rng():
                    set_up(target, args, kwargs)
            started = True
            with in_force(written_so), enabled(functions), capturing(switches) if switches else nullcontext():
                return compiled(*args, **kwargs)

        return run

    # Use a different seed: if a change removes a line that sets the seed, the results then differ.
    calls, seed = subject.work.calls, subject.work.seed + 1
    if any(change.names_loss for change in changes):
        calls = [replace(call, actions=(*call.actions, name_loss)) for call in calls]
    return subject.again(backend, calls=calls, seed=seed, wrapper=compile_changed, more={})


def _candidates(subject: Subject, broken: GraphBreak) -> Iterator[Change]:
    """Yield possible changes, starting with the simplest."""
    if any(_unnamed_loss(module) for module in modules_of(subject.work.target).values()):
        yield Change(f"set model.loss_type = {NAMED_LOSS!r}", names_loss=True)
    if is_library(
        broken.location.file
    ):  # installed code may initialize itself in its first call, and the user cannot change it
        yield Change(ADVICE, eager_first=True)
    place = broken.location
    at = file_line(Path(place.file).name, place.line)
    if functions := disabled_functions(f"{broken.reason} {broken.explanation}"):
        names = ", ".join(one.__qualname__ for one in functions)
        yield Change(f"remove torch.compiler.disable from {names}", enables=tuple(functions))
    for one in rewrites(place, (left_out, as_tensor, with_where, with_cond)):
        if one.new:
            yield Change(f"write `{_short(one.new)}` in place of `{_short(one.old)}` ({at})", one)
        else:
            yield Change(f"remove `{_short(one.old)}` ({at})", one)
    for one in rewrites(place, (computed_outside,)):
        yield Change(f"move `{one.moved}` ({at}) out of the compiled function", one)
    for caller in (place, *broken.callers[::-1]):
        for one in rewrites(caller, (without_context,)):
            where = file_line(Path(caller.file).name, caller.line)
            yield Change(f"move `with {one.moved}:` ({where}) out of the compiled function", one)
    for category, switch in (("scalar from a tensor", SCALARS), ("dynamic output shape", DYNAMIC_OUTPUTS)):
        if broken.category == category:
            yield Change(written(switch), capture=switch)
    for caller in broken.callers[::-1]:
        for one in rewrites(caller, (with_disabled,)):
            where = file_line(Path(caller.file).name, caller.line)
            what = f"use `{_short(one.new)}` ({where}); the graph then breaks at this call, which runs eagerly"
            yield Change(what, one, disables=True)


def _short(code: str) -> str:
    line = " ".join(code.split())
    return line if len(line) <= 100 else line[:97] + "..."


def _unnamed_loss(module: Any) -> bool:
    """Return whether the module contains a transformers model whose ``loss_type`` is not set. In every call, the
    model then falls back to a default loss function.
    """
    return any(
        hasattr(one, "loss_type") and one.loss_type is None and hasattr(type(one), "loss_function")
        for one in module.modules()
    )


def name_loss(target: Any) -> None:
    """Set ``loss_type`` on each transformers model in ``target`` whose ``loss_type`` is not set."""
    for module in modules_of(target).values():
        for one in module.modules():
            if _unnamed_loss(one):
                one.loss_type = NAMED_LOSS
