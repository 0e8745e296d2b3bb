"""The failures of two runs, sorted into new, gone, known and flaky, and grouped by cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from .failures import Cause, Failure, Result, Route

Runs = Mapping[str, Result]


class Status(Enum):
    """What a failure is on the new torch, beside the old one; the value is what people read."""

    NEW = "new"
    FLAKY = "flaky"
    KNOWN = "known"
    GONE = "gone"


@dataclass(frozen=True)
class Group:
    """Failures of one cause and status. ``example`` is that of the fastest test; ``first_bad`` what a bisection found.

    A group is known by its number on the page.
    """

    status: Status
    cause: Cause
    route: Route
    tests: tuple[str, ...]
    example: Failure
    first_bad: str = ""
    last_good: str = ""


def unsure(old: Runs, new: Runs) -> tuple[list[str], list[str]]:
    """The tests with failures that only one side has, to be run again there: on the old torch, on the new one."""
    return (
        [test for test, run in sorted(old.items()) if any(not _has(new, failure) for failure in run.failures)],
        [test for test, run in sorted(new.items()) if any(not _has(old, failure) for failure in run.failures)],
    )


def grouped(old: Runs, new: Runs, old_again: Runs, new_again: Runs) -> list[Group]:
    """Groups of failures: new ones first, the largest first. ``..._again`` are second runs of what ``unsure`` named.

    A failure that its second run did not show again is flaky.
    """
    groups: dict[tuple[Status, Cause], list[Failure]] = {}
    for failure in (failure for run in new.values() for failure in run.failures):
        status = Status.KNOWN if _has(old, failure) else Status.NEW
        if status is Status.NEW and failure.test in new_again and not _has(new_again, failure):
            status = Status.FLAKY
        groups.setdefault((status, failure.cause), []).append(failure)
    for failure in (failure for run in old.values() for failure in run.failures if not _has(new, failure)):
        again = failure.test not in old_again or _has(old_again, failure)
        groups.setdefault((Status.GONE if again else Status.FLAKY, failure.cause), []).append(failure)
    ordered = sorted(groups.items(), key=lambda item: (list(Status).index(item[0][0]), -len(item[1]), str(item[0][1])))
    seconds = {test: run.seconds for runs in (old, new) for test, run in runs.items()}
    return [_group(status, cause, failures, seconds) for (status, cause), failures in ordered]


def _has(runs: Runs, failure: Failure) -> bool:
    """Whether the same test fails for the same cause in these runs."""
    run = runs.get(failure.test)
    return run is not None and any(failure.cause.may_be(other.cause) for other in run.failures)


def _group(status: Status, cause: Cause, failures: Sequence[Failure], seconds: Mapping[str, float]) -> Group:
    fastest = min(failures, key=lambda failure: (seconds.get(failure.test, 0.0), failure.test))
    return Group(status, cause, fastest.route, tuple(sorted({failure.test for failure in failures})), fastest)


def to_reproduce(groups: Sequence[Group], statuses: Collection[Status]) -> list[str]:
    """The tests that show these groups fastest."""
    return sorted({group.example.test for group in groups if group.status in statuses})


def reproduced(group: Group, runs: Runs) -> Group:
    """The group with the failure as these runs show it, if they wrote a reproduction of it."""
    run = runs.get(group.example.test, Result("passed"))
    shown = [one for one in run.failures if one.reproduction and one.cause.may_be(group.cause)]
    return replace(group, example=shown[0]) if shown else group


def bisected(group: Group, last_good: str, first_bad: str) -> Group:
    """The group with the two neighbouring releases between which it began."""
    return replace(group, last_good=last_good, first_bad=first_bad)
