"""The release of torch in which a failure began: the releases between are tried, half of them left out at each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .failures import Result
from .groups import Group, bisected

# How these tests end on a release; nothing where they cannot be run there.
RunOn = Callable[[str, Sequence[str]], Mapping[str, Result]]


def bisect(groups: Sequence[Group], releases: Sequence[str], run_on: RunOn) -> list[Group]:
    """The groups with the releases between which each began: neighbours, but for those that say nothing about it.

    Args:
        groups: Of failures that the first release does not have and the last one has.
        releases: Oldest first, both ends included. What was run on one is not run there again.
    """
    known: dict[tuple[str, str], Result | None] = {}

    def fails(release: str, group: Group) -> bool | None:
        """None where the test does not run, or fails for another cause."""
        test = group.example.test
        if (release, test) not in known:
            wanted = sorted({other.example.test for other in groups} - {t for r, t in known if r == release})
            runs = run_on(release, wanted)
            known.update({(release, one): runs.get(one) for one in wanted})
        run = known[release, test]
        if run is not None and any(group.cause.may_be(failure.cause) for failure in run.failures):
            return True
        return False if run is not None and run.outcome == "passed" else None

    placed = []
    for group in groups:
        good, bad = 0, len(releases) - 1
        silent: set[int] = set()
        while between := [index for index in range(good + 1, bad) if index not in silent]:
            middle = between[len(between) // 2]
            verdict = fails(releases[middle], group)
            if verdict is None:
                silent.add(middle)
            good, bad = middle if verdict is False else good, middle if verdict else bad
        placed.append(bisected(group, releases[good], releases[bad]))
    return placed
