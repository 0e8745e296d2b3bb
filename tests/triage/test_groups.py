"""Failures of two releases: new, gone, known, flaky, and grouped by cause; the release in which one began."""

from __future__ import annotations

import pytest

from pytest_torch_compile.triage.bisection import bisect
from pytest_torch_compile.triage.failures import Cause, Failure, Result, Route
from pytest_torch_compile.triage.groups import grouped, unsure

BREAK = Cause("graph-break", "call to print or a logger", "vit.py in forward")
WRONG = Cause("numerics", "inductor")
UNKNOWN = Cause("numerics", "unknown stage")


def run(test, *causes, seconds=1.0):
    failures = tuple(Failure(test, cause, Route.DYNAMO, str(cause)) for cause in causes)
    return Result("failed" if failures else "passed", seconds, failures)


def runs(**causes):
    return {test: run(test, *of_test) for test, of_test in causes.items()}


def summary(groups):
    return [(group.status.value, group.cause, group.tests) for group in groups]


def test_failures_are_sorted_and_grouped_by_cause():
    old = runs(a=(), b=(), c=(WRONG,), d=(BREAK,), e=())
    new = runs(a=(BREAK,), b=(BREAK,), c=(WRONG,), d=(), e=(WRONG,))
    assert unsure(old, new) == (["d"], ["a", "b", "e"])
    groups = grouped(old, new, runs(d=(BREAK,)), runs(a=(BREAK,), b=(BREAK,), e=()))
    assert summary(groups) == [
        ("new", BREAK, ("a", "b")),
        ("flaky", WRONG, ("e",)),
        ("known", WRONG, ("c",)),
        ("gone", BREAK, ("d",)),
    ]


def test_failure_that_has_another_cause_since_is_new_and_the_old_one_gone():
    groups = grouped(runs(a=(BREAK,)), runs(a=(WRONG,)), {}, {})
    assert summary(groups) == [("new", WRONG, ("a",)), ("gone", BREAK, ("a",))]


def test_wrong_result_whose_stage_one_side_does_not_know_is_known():
    assert summary(grouped(runs(a=(UNKNOWN,)), runs(a=(WRONG,)), {}, {})) == [("known", WRONG, ("a",))]


def test_test_that_only_one_release_has_is_new_or_gone():
    groups = grouped(runs(a=(BREAK,)), runs(b=(BREAK,)), {}, {})
    assert summary(groups) == [("new", BREAK, ("b",)), ("gone", BREAK, ("a",))]


def test_example_is_of_the_fastest_test():
    new = {"slow": run("slow", BREAK, seconds=9.0), "fast": run("fast", BREAK, seconds=0.1)}
    (group,) = grouped(runs(slow=(), fast=()), new, {}, {})
    assert group.example.test == "fast"


RELEASES = ["2.11.0", "2.12.0", "2.13.0", "2.14.0", "2.15.0"]


@pytest.mark.parametrize("began", RELEASES[1:])
def test_bisection_finds_the_release_in_which_a_failure_began(began):
    ran = []

    def run_on(release, tests):
        ran.append(release)
        return runs(a=(BREAK,)) if RELEASES.index(release) >= RELEASES.index(began) else runs(a=())

    groups = grouped(runs(a=()), runs(a=(BREAK,)), {}, {})
    (group,) = bisect(groups, RELEASES, run_on)
    assert (group.last_good, group.first_bad) == (RELEASES[RELEASES.index(began) - 1], began)
    assert len(ran) == len(set(ran)) == 2


def test_groups_share_the_runs_of_a_bisection():
    ran = []

    def run_on(release, tests):
        ran.append((release, tuple(tests)))
        return runs(a=(BREAK,), b=(WRONG,) if release == "2.14.0" else ())

    groups = grouped(runs(a=(), b=()), runs(a=(BREAK,), b=(WRONG,)), {}, {})
    placed = {group.cause: group.first_bad for group in bisect(groups, RELEASES, run_on)}
    assert placed == {BREAK: "2.12.0", WRONG: "2.14.0"}
    assert sorted(ran) == [("2.12.0", ("a", "b")), ("2.13.0", ("a", "b")), ("2.14.0", ("a", "b"))]


def test_nothing_failed_gives_no_group():
    assert grouped(runs(a=()), runs(a=()), {}, {}) == []
