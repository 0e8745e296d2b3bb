"""Compare the counts of new compilations with stored counts. One stored run is enough for the comparison. This module
imports neither torch nor pytest.

Inductor makes some decisions, such as whether to pad a matrix product, by timing alternatives (autotuning). So the
number of kernels, the peak memory and the number of Python calls may differ between two compilations of the same graph.
For each quantity that autotuning may change, a baseline stores every recorded value. A new value outside the range of
the stored values is reported only if a second compilation confirms the change. All other quantities are deterministic.

In a plan (``check_plan``), nothing is timed, so every quantity is deterministic and has no tolerance.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...baselines.structure import GUARDS_NUMBER, GUARDS_SHARE
from ...findings import CompileUsageError, FindingKind
from ...report.view import counted
from ..sample import Exact
from .constants import (
    GUARD_MICROSECONDS,
    MEMORY_SHARE,
    PYTHON_CALL_MICROSECONDS,
    PYTHON_CALLS_NUMBER,
    PYTHON_CALLS_SHARE,
)

# The stored values, keyed by the name of the quantity.
Stored = Mapping[str, Sequence[int]]
# The allowed increase in each quantity: a number (int), a fraction of the stored value (float), or None to skip the
# quantity.
AllowMore = Mapping[str, int | float | None]


@dataclass(frozen=True)
class Quantity:
    """A counted quantity. Changes within a tolerance are ignored. The tolerance is the larger of ``share`` (a fraction
    of the stored value) and ``number``.

    ``tuned`` is true if autotuning may change the quantity. ``microseconds`` is the host time that one unit of the
    quantity (such as one guard) takes in each call; it is set only if host time is the quantity's only cost.
    ``planned`` is the quantity's title in a plan (``check_plan``), or empty if plans do not contain the quantity.
    """

    name: str
    title: str
    planned: str = ""
    kind: FindingKind = "structure"
    share: float = 0.0
    number: int = 0
    tuned: bool = False
    microseconds: float = 0.0

    def shown(self, value: int) -> str:
        """Format a value of this quantity."""
        return counted(self.name, value)


QUANTITIES = (
    Quantity("kernels", "kernels per call", "kernels", tuned=True),
    Quantity("library_calls", "library calls per call", "library calls"),
    Quantity("memory", "peak memory", "planned peak memory", kind="memory", share=MEMORY_SHARE, tuned=True),
    Quantity("bytes_moved", "bytes moved per call", "bytes moved", kind="memory"),
    Quantity("graphs", "graphs", "graphs"),
    Quantity("graph_breaks", "graph breaks", "graph breaks", kind="graph-break"),
    Quantity("recompiles", "recompiles", "recompiles", kind="recompile"),
    Quantity("guards", "guards", share=GUARDS_SHARE, number=GUARDS_NUMBER, microseconds=GUARD_MICROSECONDS),
    Quantity("cuda_graphs", "CUDA graphs launched per call", "CUDA graphs", kind="cudagraph-skip"),
    Quantity("cudagraph_skips", "CUDA graph skips", "CUDA graph skips", kind="cudagraph-skip"),
    Quantity("collectives", "collectives per call"),
    Quantity("syncs", "device synchronizations per call", kind="host-sync"),
    Quantity(
        "python_calls", "Python calls per call", share=PYTHON_CALLS_SHARE, number=PYTHON_CALLS_NUMBER, tuned=True,
        microseconds=PYTHON_CALL_MICROSECONDS,
    ),
)  # fmt: skip
NAMES = tuple(quantity.name for quantity in QUANTITIES)
# A decrease in these quantities is a regression, because the code may no longer run in CUDA graphs. If the number of
# graphs has decreased as well, for example because a graph break was removed, fewer CUDA graphs are sufficient.
KEPT = {"cuda_graphs"}


def require_counted(allow_more: AllowMore | None) -> None:
    """Check the names and values in ``allow_more``.

    Raises:
        CompileUsageError: If a name is unknown or a value is invalid. The message shows valid names or values.
    """
    for name, allowed in (allow_more or {}).items():
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(NAMES)}"
            raise CompileUsageError(f"allow_more: {name!r} is not a counted quantity: {hint}")
        if allowed is not None and name in KEPT:
            raise CompileUsageError(
                f"allow_more: {name} can only be None, which turns off the comparison of this count; a number has no "
                "use, because only a decrease is a regression"
            )
        if allowed is not None and not (isinstance(allowed, (int, float)) and allowed >= 0):
            raise CompileUsageError(
                f"allow_more: {name} is {allowed!r}; it must be a count such as 10, a fraction such as 0.05, or None"
            )


@dataclass(frozen=True)
class Difference:
    """A quantity whose new values differ from the stored values. ``planned`` is true if ``--compile-plan`` predicted
    the values, and false if they were measured.
    """

    quantity: Quantity
    before: int
    after: int
    worse: bool
    planned: bool = False

    @property
    def title(self) -> str:
        """The quantity's title, which may be different for plans and for measurements."""
        return self.quantity.planned if self.planned else self.quantity.title

    def __str__(self) -> str:
        before, after = map(self.quantity.shown, (self.before, self.after))
        if before == after:  # a difference of a few bytes is too small for megabytes
            before, after = f"{self.before:,}", f"{self.after:,} bytes"
        cost = (self.after - self.before) * self.quantity.microseconds
        return f"{self.title} {before} -> {after}" + (f" (about {cost:.0f} us per call)" if cost >= 1 else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the difference as JSON-ready data."""
        numbers = {"before": self.before, "after": self.after, "worse": self.worse}
        return {"quantity": self.quantity.name, "title": self.title, **numbers}


def differences(
    stored: Stored, new: Sequence[Exact], allow_more: AllowMore | None = None, *, planned: bool = False
) -> list[Difference]:
    """Return the quantities that changed by more than their tolerance. A quantity has changed if all new values are
    above every stored value, or if all new values are below every stored value. For a quantity in ``KEPT``, an increase
    is ignored, and every decrease is returned. ``allow_more`` permits larger increases. If ``planned`` is true, the
    tolerance is zero.

    If nothing was compiled for the baseline, its other counts are about eager code, so only the graphs are returned.
    """
    found, allowed = [], allow_more or {}
    graphs_before, graphs_now = stored.get("graphs", ()), [exact.graphs or 0 for exact in new]
    if graphs_before and not max(graphs_before) and min(graphs_now):
        graphs = next(quantity for quantity in QUANTITIES if quantity.name == "graphs")
        return [Difference(graphs, 0, min(graphs_now), False, planned)]
    for quantity in QUANTITIES:
        if planned:
            quantity = replace(quantity, share=0.0, number=0)
        more = allowed.get(quantity.name, 0)
        values = [getattr(exact, quantity.name) for exact in new]
        known = stored.get(quantity.name, ())
        if not known or None in values or more is None:
            continue
        lowest, highest = min(values), max(values)
        if lowest > max(known) and quantity.name not in KEPT:
            # The allowed increase is the larger of the tolerance and of ``allow_more``, which may be a fraction.
            asked = more * max(known) if isinstance(more, float) else more
            if lowest > max(known) + max(_tolerance(quantity, max(known)), asked):
                found.append(Difference(quantity, max(known), lowest, True, planned))
        elif highest < min(known):
            lost = quantity.name == "graphs" and not highest
            if quantity.name in KEPT:
                per_graph = highest * max(graphs_before, default=0) >= min(known) * max(graphs_now)
                lost = not (highest and per_graph and max(graphs_now))
            if lost or highest < min(known) - _tolerance(quantity, min(known)):
                found.append(Difference(quantity, min(known), highest, lost, planned))
    return found


def is_certain(difference: Difference, compilations: int) -> bool:
    """Return whether this number of compilations is enough to confirm the difference."""
    return compilations > 1 or not difference.quantity.tuned


def merged(stored: Stored, new: Sequence[Exact], changed: bool) -> dict[str, list[int]]:
    """Return the values to store: the new values and, unless the test has ``changed``, the previously stored values."""
    names = [name for name in NAMES if any(getattr(exact, name) is not None for exact in new)]
    kept = {} if changed else stored
    values = {name: {getattr(exact, name) for exact in new} - {None} for name in names}
    return {name: sorted({*kept.get(name, ()), *values[name]}) for name in names}


def _tolerance(quantity: Quantity, value: int) -> float:
    return max(quantity.number, quantity.share * value)
