"""Sort the failures of two runs into new, gone, known and flaky failures, and group them by cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from .failed_tests import Cause, Failure, Result, Route

Runs = Mapping[str, Result]


class Status(Enum):
    """How a failure differs between the old and the new torch version; the value is shown to users."""

    NEW = "new"
    NOT_ON_OLD = "not run on the old torch"
    FLAKY = "flaky"
    KNOWN = "known"
    GONE = "gone"
    NOT_ON_NEW = "not run on the new torch"

    @property
    def is_worse(self) -> bool:
        """Whether the test fails on the new torch version, and is not known to fail on the old version."""
        return self in (Status.NEW, Status.NOT_ON_OLD)


@dataclass(frozen=True)
class Group:
    """Failures with the same cause and status. ``example`` is the failure of the fastest test. ``last_good`` and
    ``first_bad`` are the releases that a bisection found.
    """

    status: Status
    cause: Cause
    route: Route
    tests: tuple[str, ...]
    example: Failure
    first_bad: str = ""
    last_good: str = ""


def unsure(old: Runs, new: Runs) -> list[str]:
    """Return the tests with a failure on only one torch version. These tests must be run again on both versions."""
    tests = {failure.test for failure in _failures(old) if not _has(new, failure)}
    return sorted(tests | {failure.test for failure in _failures(new) if not _has(old, failure)})


def lost(old: Runs, new: Runs) -> dict[str, str]:
    """Return the tests that ran only on the old torch version, with their status on the new version: skipped or
    missing.
    """
    ran = [test for test in sorted(old) if _ran(old, test) and not _ran(new, test)]
    return {test: "skipped" if test in new else "missing" for test in ran}


def grouped(old: Runs, new: Runs, old_again: Runs, new_again: Runs) -> list[Group]:
    """Group the failures; new and large groups come first. ``old_again`` and ``new_again`` contain the second runs of
    the tests that ``unsure`` returns.

    A test is flaky if its two runs on one torch version differ. A test is not compared with a torch version on which it
    was skipped or missing.
    """
    groups: dict[tuple[Status, Cause], list[Failure]] = {}
    for failure in _failures(new):
        if failure.expected or _has(old, failure):
            status = Status.KNOWN
        elif not _ran(old, failure.test):
            status = Status.NOT_ON_OLD
        else:
            status = Status.FLAKY if _passes(new_again, failure) or _has(old_again, failure) else Status.NEW
        groups.setdefault((status, failure.cause), []).append(failure)
    for failure in (failure for failure in _failures(old) if not _has(new, failure)):
        if not _ran(new, failure.test):
            status = Status.NOT_ON_NEW
        else:
            status = Status.FLAKY if _passes(old_again, failure) or _has(new_again, failure) else Status.GONE
        groups.setdefault((status, failure.cause), []).append(failure)
    ordered = sorted(groups.items(), key=lambda item: (list(Status).index(item[0][0]), -len(item[1]), str(item[0][1])))
    seconds = {test: run.seconds for runs in (old, new) for test, run in runs.items()}
    made = []
    for (status, cause), failures in ordered:
        fastest = min(failures, key=lambda failure: (seconds.get(failure.test, 0.0), failure.test))
        tests = tuple(sorted({failure.test for failure in failures}))
        made.append(Group(status, cause, fastest.route, tests, fastest))
    return made


def _failures(runs: Runs) -> list[Failure]:
    return [failure for run in runs.values() for failure in run.failures]


def _ran(runs: Runs, test: str) -> bool:
    """Return whether a test ran. If ``test`` is a file that could not be collected on the other torch version, return
    whether any test in the file ran.
    """
    own = [run for name, run in runs.items() if name == test or name.startswith(f"{test}::")]
    return any(run.outcome != "skipped" for run in own)


def _passes(runs: Runs, failure: Failure) -> bool:
    """Return whether a failure's test passed in ``runs``."""
    return failure.test in runs and runs[failure.test].outcome == "passed"


def _has(runs: Runs, failure: Failure) -> bool:
    """Return whether a failure's test fails for the same cause in ``runs``."""
    run = runs.get(failure.test)
    return run is not None and any(failure.cause.may_be(other.cause) for other in run.failures)


def to_reproduce(groups: Sequence[Group], statuses: Collection[Status]) -> list[str]:
    """Return the fastest test of each group whose status is in ``statuses``."""
    return sorted({group.example.test for group in groups if group.status in statuses})


def reproduced(group: Group, runs: Runs) -> Group:
    """Return the group with a new ``example`` from ``runs``, in which each check tried to write a reproduction script.

    The new example contains either the path of the script or, in ``diagnosis``, the reason why there is no script. Each
    check writes at most one script, which reproduces only one of the check's findings. If the group's failure does not
    occur in ``runs``, or the script reproduces a different failure, the group is returned unchanged.
    """
    run = runs.get(group.example.test, Result("passed"))
    shown = [one for one in run.failures if one.cause.may_be(group.cause)]
    written = any(one.reproduction for one in run.failures)
    told = [one for one in shown if one.reproduction or not written]
    return replace(group, example=told[0]) if told else group


def bisected(group: Group, last_good: str, first_bad: str) -> Group:
    """Return the group with the two releases between which the failure first appeared."""
    return replace(group, last_good=last_good, first_bad=first_bad)
