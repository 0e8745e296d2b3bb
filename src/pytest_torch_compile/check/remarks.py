"""Notes for the report about facts that are not failures, such as options that had no effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .._torch.error_text import error_summary
from ..budget import Budget
from ..numerics import Tolerances
from ..observation import Observation
from . import acceptance


def unused_breaks(budget: Budget, seen: Observation) -> Iterator[str]:
    """Yield a line for each accepted graph break that did not occur: the break was removed from the code, or the
    fingerprint is misspelled.

    Breaks from ``compile-accepted.json`` are not included, because they apply to a whole test and need not occur in
    every check. Entries of ``compile-accepted.json`` that are no longer needed are listed at the end of the session.
    """
    of_test = acceptance.current.breaks if acceptance.current else frozenset()
    named = set(budget.accepted_breaks) - of_test
    for fingerprint in sorted(named - {found.fingerprint for found in seen.graph_breaks}):
        yield f"accepted_breaks: {fingerprint} matched no graph break in this check"


def unused_tolerances(tolerances: Tolerances, paths: Iterable[str]) -> Iterator[str]:
    """Yield a line for each pattern in ``Tolerances`` that matches none of ``paths``, the paths of compared or ignored
    values.
    """
    for pattern in tolerances.unmatched(paths):
        yield f"tolerances: the pattern {pattern!r} matched no value in this check"


def not_judged_by(no_reference: BaseException | None, no_perturbed: BaseException | None) -> Iterator[str]:
    """Yield a line for each measurement that could not be taken because its reference run raised an exception."""
    if no_reference is not None:
        yield f"errors relative to float64, because the eager run in float64 raises {error_summary(no_reference)}"
    if no_perturbed is not None:
        yield (
            "sensitivity to rounding, because the eager run with perturbed rounding raises "
            f"{error_summary(no_perturbed)}"
        )
