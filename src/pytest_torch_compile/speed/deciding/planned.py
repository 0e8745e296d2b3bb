"""Compare the counts that ``--compile-plan`` predicts for one test with the test's baseline entry. This module imports
neither torch nor pytest.

A baseline entry contains the planned counts of one call, the launches of each kernel and library function in this call,
and the fingerprints of the graph breaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..sample import Exact
from .exact import AllowMore, Difference, differences

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedChange:
    """The differences between two baseline entries with planned counts. ``new`` maps kernels and library functions to
    their numbers of added launches, and ``gone`` to their numbers of removed launches. ``new_breaks`` lists the
    fingerprints of new graph breaks, and ``new_ops`` lists the ops that no launch in the stored entry computes.
    """

    differences: tuple[Difference, ...]
    new: Mapping[str, int]
    gone: Mapping[str, int]
    new_breaks: tuple[str, ...]
    new_ops: tuple[str, ...]

    @property
    def worse(self) -> list[Difference]:
        """The differences that are regressions."""
        return [difference for difference in self.differences if difference.worse]

    @property
    def outcome(self) -> str:
        """``regressed`` if any count is worse, ``improved`` if counts changed only for the better, and ``pass``
        otherwise.
        """
        return "regressed" if self.worse else "improved" if self.differences else "pass"

    @property
    def summary(self) -> str:
        """A line that lists all differences in the counts."""
        return ", ".join(map(str, self.differences))

    def lines(self, places: Mapping[str, str]) -> Iterator[str]:
        """Yield a line for each new graph break, each new op, and each launch that was added or removed. ``places``
        maps a break's fingerprint, an op or a launch's label to a line of code; added launches are listed in the order
        of ``places``.
        """
        order = {name: number for number, name in enumerate(places)}
        for fingerprint in self.new_breaks:
            yield f"new graph break{_at(places, fingerprint)}"
        for op in self.new_ops:
            yield f"new op: {op}{_at(places, op)}"
        for word, launches in (("new", self.new), ("gone", self.gone)):
            for name, times in sorted(launches.items(), key=lambda one: order.get(one[0], len(order))):
                often = f"{times} x " if times > 1 else ""
                yield f"{word}: {often}{name}{_at(places, name) if word == 'new' else ''}"


def _at(places: Mapping[str, str], name: str) -> str:
    return f" at {places[name]}" if places.get(name) else ""


def label(launch: Mapping[str, Any]) -> str:
    """Return the name of a kernel or library function, followed by the ops that it computes."""
    return f"{launch['name']} ({', '.join(launch['ops'])})"


def compare(before: Entry, after: Entry, allow_more: AllowMore | None = None) -> PlannedChange:
    """Compare two baseline entries with planned counts, without tolerances. ``allow_more`` contains the allowed
    increases in the counts.
    """
    stored = {name: [value] for name, value in before["counts"].items()}
    old, new = (Counter({label(one): one["times"] for one in entry["launches"]}) for entry in (before, after))
    breaks: Counter[str] = Counter(after["graph_breaks"]) - Counter(before["graph_breaks"])
    found = differences(stored, [Exact(**after["counts"])], allow_more, planned=True)
    ops = _ops(after) - _ops(before)
    return PlannedChange(tuple(found), new - old, old - new, tuple(sorted(breaks.elements())), tuple(sorted(ops)))


def _ops(entry: Entry) -> set[str]:
    return {op for launch in entry["launches"] for op in launch["ops"]}
