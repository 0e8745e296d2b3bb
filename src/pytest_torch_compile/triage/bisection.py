"""The release of torch in which a failure began: the releases between are tried, half of them left out at each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .failures import Result
from .groups import Group, bisected

# How these tests end on a release.
RunOn = Callable[[str, Sequence[str]], Mapping[str, Result]]


def bisect(groups: Sequence[Group], releases: Sequence[str], run_on: RunOn) -> list[Group]:
    """The groups with the neighbouring releases between which each began.

    Args:
        groups: Of failures that the first release does not have and the last one has.
        releases: Oldest first, both ends included. What was run on one is not run there again.
    """
    known: dict[tuple[str, str], Result | None] = {}

    def fails(release: str, group: Group) -> bool:
        test = group.example.test
        if (release, test) not in known:
            wanted = sorted({other.example.test for other in groups} - {t for r, t in known if r == release})
            runs = run_on(release, wanted)
            known.update({(release, one): runs.get(one) for one in wanted})
        run = known[release, test]
        return run is not None and any(group.cause.may_be(failure.cause) for failure in run.failures)

    placed = []
    for group in groups:
        good, bad = 0, len(releases) - 1
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if fails(releases[middle], group) else (middle, bad)
        placed.append(bisected(group, releases[good], releases[bad]))
    return placed
