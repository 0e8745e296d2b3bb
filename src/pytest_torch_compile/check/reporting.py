"""Start the report of a check: what was run and observed, with remarks that are not failures, but without findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from .. import advice
from .._torch import support, tf32
from ..budget import Budget
from ..findings import CompileReport, NumericsReport, Reference
from ..legs.check_record import Check
from ..numerics import Comparison
from ..observation import Observation
from . import acceptance
from .both_legs import ComparedRun
from .describe import device_name, rerun_command, target_name
from .watching import Watched


def report_of(check: Check, run: ComparedRun) -> CompileReport:
    """Return the report of a check's runs, without findings. Also list in ``seen.not_observable`` what this torch
    version or backend does not show.
    """
    work, compiling, seen = check.work, check.compiling, run.seen
    if remark := support.newer_than_checked():
        seen.not_observable.append(remark)
    if check.faster_backend:
        seen.not_observable.append(f"generated code, because --compile-fast uses backend {check.faster_backend}")
    return CompileReport(
        target=target_name(work.target),
        checked_mode=compiling.checked_mode,
        backend=compiling.name,
        torch=str(torch.__version__),
        device=device_name(work.target, work.calls[0]),
        budget=check.budget.limits(),
        calls=run.rows,
        observation=seen,
        numerics=_numerics(run.comparisons),
        remarks=_remarks(check, run),
        rerun=rerun_command(),
        deviations=run.deviations,
    )


def report_of_block(name: str, block: Watched, budget: Budget) -> CompileReport:
    """Return the report of a ``compile_guard`` block, without findings."""
    return CompileReport(
        target=name,
        checked_mode="the code's own",
        backend="the code's own",
        torch=str(torch.__version__),
        device="any device",
        budget=budget.limits(),
        observation=block.seen,
        remarks=list(_unused_breaks(budget, block.seen)),
        rerun=rerun_command(),
        deviations=block.deviations,
    )


def _remarks(check: Check, run: ComparedRun) -> list[str]:
    """Return the notes on a run. Return no notes if the run is incomplete, because not all values were compared."""
    if run.compile_error is not None or not run.comparisons or any(one.raised for one in run.comparisons):
        return []
    paths = {leaf.path for comparison in run.comparisons for leaf in comparison.leaves}
    paths |= {path for comparison in run.comparisons for path in comparison.ignored}
    unmatched = check.tolerances.unmatched(paths)
    unused = [f"tolerances: the pattern {pattern!r} matched no value in this check" for pattern in unmatched]
    large = list(_large_errors(run.comparisons))
    return [*check.compiling.remarks, *_unused_breaks(check.budget, run.seen), *unused, *large]


def _large_errors(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield a line for each output that passes although its error is large, with the largest error of all calls."""
    largest: dict[str, float] = {}
    for leaf in (leaf for comparison in comparisons for leaf in comparison.leaves if leaf.ok and leaf.large_error):
        largest[leaf.path] = max(leaf.large_error, largest.get(leaf.path, 0.0))
    on_gpu = torch.cuda.is_initialized()
    turn_off = [what for setting, what in tf32.HOW_TO_TURN_OFF.items() if on_gpu and tf32.is_allowed(setting)]
    hint = f"to find smaller errors, {', or '.join([*turn_off, advice.CHECK_IN_FLOAT64])}"
    for path, error in largest.items():
        yield f"{path} passes with an error of {error:.1%}, because the code amplifies rounding errors; {hint}"


def _unused_breaks(budget: Budget, seen: Observation) -> Iterator[str]:
    """Yield a line for each accepted graph break that did not occur: the break was removed from the code, or the
    fingerprint is misspelled.

    Breaks from ``compile-accepted.json`` are not included, because they apply to a whole test and need not occur in
    every check. Entries of ``compile-accepted.json`` that are no longer needed are listed at the end of the session.
    """
    of_test = acceptance.current.breaks if acceptance.current else frozenset()
    named = set(budget.accepted_breaks) - of_test
    for fingerprint in sorted(named - {found.fingerprint for found in seen.graph_breaks}):
        yield f"accepted_breaks: {fingerprint} matched no graph break in this check"


def _numerics(comparisons: Sequence[Comparison]) -> NumericsReport:
    leaves = [leaf for comparison in comparisons for leaf in comparison.leaves]
    worst = max(leaves, key=lambda leaf: leaf.worst.ratio, default=None)
    references = {c.reference for c in comparisons} - {Reference.NOT_NEEDED}
    return NumericsReport(
        leaves=len(leaves),
        worst_ratio=worst.worst.ratio if worst else 0.0,
        worst_leaf=worst.path if worst else "",
        reference=", ".join(sorted(r.value for r in references)) or Reference.NOT_NEEDED.value,
        nondeterministic=any(comparison.nondeterministic for comparison in comparisons),
        not_compared=tuple(dict.fromkeys(path for comparison in comparisons for path in comparison.not_compared)),
        ill_conditioned=sum(leaf.ok and leaf.perturbed_runs > 0 for leaf in leaves),
    )
