"""Find the torch release in which a failure first appeared, by bisecting the releases between two versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .failed_tests import Result
from .groups import Group, bisected

# A function that runs tests on a release and returns their outcomes. The result is empty if the tests cannot be run on
# this release.
RunOn = Callable[[str, Sequence[str]], Mapping[str, Result]]


def bisect(groups: Sequence[Group], releases: Sequence[str], run_on: RunOn) -> list[Group]:
    """Return the groups, each with the two releases between which the failure first appeared (``last_good`` and
    ``first_bad``). All releases between ``last_good`` and ``first_bad`` are inconclusive: the test does not run on
    them, or fails only with other causes.

    Args:
        groups: The groups of failures that occur in the newest release but not in the oldest.
        releases: The releases to bisect, oldest first, including the old and the new release. Each test runs at most
            once on each release.
    """
    known: dict[tuple[str, str], Result | None] = {}

    def fails(release: str, group: Group) -> bool | None:
        """Return whether the failure occurs, or None if the test does not run or fails only with other causes."""
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
