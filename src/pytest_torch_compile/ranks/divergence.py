"""Compare the ranks' observations in each check, and report differences between ranks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from .. import advice
from ..findings import CompileUsageError, Finding
from ..report.failure_text import count, cut, numbered
from .progress import CheckSeen, Fact

# Maps each name that ``same=`` accepts to the kind of observation that is compared. Causes come before their effects:
# for example, a graph break on one rank only also changes the graphs of this rank.
SAME = {
    "graph_breaks": "graph break",
    "recompiles": "recompile",
    "fallbacks": "eager fallback",
    "collectives": "collective",
    "graphs": "graph",
    "end": "",
}
_LINES, _WIDTH = 6, 160


def require_known(same: Collection[str]) -> None:
    """Reject a ``same=`` argument that contains unknown names.

    Raises:
        CompileUsageError: If a name is unknown, or the value is a single string instead of a list.
    """
    if isinstance(same, str) or not set(same) <= SAME.keys():
        raise CompileUsageError(
            f"same={same!r}: must be a list of these names: {', '.join(map(repr, SAME))}; use () to compare nothing"
        )


@dataclass(frozen=True)
class RankSeen:
    """One rank's observations (such as graph breaks) in each of its checks. ``stopped`` is true if the rank died, was
    terminated while it was compiling, or raised an exception. If ``stopped`` is true, the rank's observations of the
    most recent call are incomplete.
    """

    checks: Mapping[str, CheckSeen]
    stopped: bool = False

    def facts(self, check: str, kind: str) -> list[Fact]:
        """Return a check's observations of one kind, such as ``graph break``."""
        return [fact for fact in self.checks[check].facts if fact.kind == kind]

    def whole_calls(self, check: str) -> float:
        """Return the number of calls to compiled functions for which the observations are complete, or infinity if the
        check has ended.
        """
        seen = self.checks[check]
        return math.inf if seen.ended else seen.calls - self.stopped


def divergences(ranks: Mapping[int, RankSeen], same: Collection[str]) -> list[Finding]:
    """Return a finding for each check whose observations differ between ranks."""
    kinds = [kind for name, kind in SAME.items() if name in same and kind]
    findings = []
    for check in dict.fromkeys(check for seen in ranks.values() for check in seen.checks):
        who = {rank: seen for rank, seen in ranks.items() if check in seen.checks}
        sides = {kind: groups for kind in kinds if len(groups := _groups(who, check, kind)) > 1}
        if sides:
            findings.append(_finding(who, check, sides))
    return findings


def left_early(ranks: Mapping[int, RankSeen], returned: Sequence[int], running: Sequence[int]) -> list[Finding]:
    """If the ``returned`` and ``running`` ranks ran the same check, return a finding. The finding reports that the
    ``running`` ranks did not return.
    """
    checks = ranks[returned[0]].checks if returned else ()
    shared = [check for check in checks if any(check in ranks[rank].checks for rank in running)]
    if not shared:
        return []
    name = shared[-1].rpartition(" ")[0]
    message = f"returned after {name}, but {numbered('rank', running)} did not return"
    return [Finding("rank-divergence", message, hint=advice.RANKS_DIFFER, ranks=tuple(returned), subject=name)]


def _groups(ranks: Mapping[int, RankSeen], check: str, kind: str) -> list[list[int]]:
    """Group the ranks by their observations of one kind in a check. The group with the most ranks comes first; among
    groups of equal size, the group with the fewest observations comes first.
    """
    whole = min(seen.whole_calls(check) for seen in ranks.values())
    facts = {rank: seen.facts(check, kind) for rank, seen in ranks.items()}
    keys = {rank: [fact.key for fact in found if fact.during <= whole] for rank, found in facts.items()}
    # The order of graphs may depend on threads, but collectives must have the same order on all ranks.
    stories: dict[int, Any] = {
        rank: tuple(own) if kind == "collective" else frozenset(Counter(own).items()) for rank, own in keys.items()
    }
    if len(set(stories.values())) == 1:
        later = {rank: [fact.key for fact in found if fact.during > whole] for rank, found in facts.items()}
        # A rank that has made less progress does not count as different: at each position, only the ranks that have
        # reached it are compared.
        for position in zip_longest(*later.values()):
            stories = {rank: key for rank, key in zip(later, position, strict=True) if key is not None}
            if len(set(stories.values())) > 1:
                break
    members: dict[Any, list[int]] = {}
    for rank, story in stories.items():
        members.setdefault(story, []).append(rank)
    return sorted(members.values(), key=lambda group: (-len(group), len(facts[group[0]]), group))


def _finding(ranks: Mapping[int, RankSeen], check: str, sides: Mapping[str, list[list[int]]]) -> Finding:
    kind, (usual, *others) = next(iter(sides.items()))
    name = check.rpartition(" ")[0]
    mine, theirs = (ranks[group[0]].facts(check, kind) for group in (others[0], usual))
    first = next(iter([*_without(mine, theirs), *_without(theirs, mine)]), None)
    if kind == "collective" or len(mine) == len(theirs):
        message = f"{kind}s in {name} differ from those on {numbered('rank', usual)}"
    else:
        message = f"{count(len(mine), kind)} in {name}, but {len(theirs)} on {numbered('rank', usual)}"
    lines = [line for kind, groups in sides.items() for line in _side_by_side(ranks, check, kind, groups)]
    return Finding(
        "rank-divergence",
        message,
        first.location if first else None,
        "\n".join(lines),
        advice.RANKS_DIFFER,
        calls=(first.call,) if first and first.call else (),
        ranks=tuple(sorted(rank for group in others for rank in group)),
        subject=name,
    )


def _side_by_side(ranks: Mapping[int, RankSeen], check: str, kind: str, groups: Sequence[list[int]]) -> list[str]:
    """For each group of ranks, return lines that list the group's observations. Observations that all groups share are
    counted but not listed, except collectives, which are always listed.
    """
    facts = [ranks[group[0]].facts(check, kind) for group in groups]
    lines = []
    for group, found in zip(groups, facts, strict=True):
        in_all = [fact for fact in found if all(fact.key in {other.key for other in others} for others in facts)]
        own = found if kind == "collective" else _without(found, in_all)
        equal = f", in addition to {count(len(in_all), kind)} on all ranks" if in_all and own is not found else ""
        lines.append(f"{kind}s of {numbered('rank', group)}: {len(own) or 'none'}{equal}")
        lines += [f"  {cut(fact.text, _WIDTH)}" for fact in own[:_LINES]]
        lines += [f"  and {len(own) - _LINES} more"] if len(own) > _LINES else []
    return lines


def _without(facts: Sequence[Fact], others: Sequence[Fact]) -> list[Fact]:
    """Return the observations whose keys are missing from ``others`` or occur less often in ``others``."""
    left = Counter(fact.key for fact in others)
    result = []
    for fact in facts:
        left[fact.key] -= 1
        if left[fact.key] < 0:
            result.append(fact)
    return result
