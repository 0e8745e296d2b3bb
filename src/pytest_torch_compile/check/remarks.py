"""What is worth a line in the report and is no failure: options that had nothing to act on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .._torch.error_text import error_summary
from ..findings import Budget
from ..numerics import Tolerances
from ..observation import Observation
from . import acceptance


def unused_breaks(budget: Budget, seen: Observation) -> Iterator[str]:
    """A line for each accepted graph break that was not there: fixed, or misspelt.

    What ``compile-accepted.json`` holds is of a whole test, so one check may well not need it; the end of the session
    names what no check needed.
    """
    of_test = acceptance.current.breaks if acceptance.current else frozenset()
    named = set(budget.accepted_breaks) - of_test
    for fingerprint in sorted(named - {found.fingerprint for found in seen.graph_breaks}):
        yield f"accepted_breaks: {fingerprint} matched nothing in this check"


def unused_tolerances(tolerances: Tolerances, paths: Iterable[str]) -> Iterator[str]:
    """A line for each pattern of ``Tolerances`` that names none of the leaves, compared and left out."""
    for pattern in tolerances.unmatched(paths):
        yield f"tolerances: the leaf pattern {pattern!r} matched nothing in this check"


def not_judged_by(no_reference: BaseException | None, no_perturbed: BaseException | None) -> Iterator[str]:
    """A line for each kind of run that sets the limits of leaves and that raised."""
    if no_reference is not None:
        yield f"errors against float64, since eager cannot run in it: {error_summary(no_reference)}"
    if no_perturbed is not None:
        yield f"how far rounding carries, since eager with perturbed rounding cannot run: {error_summary(no_perturbed)}"
