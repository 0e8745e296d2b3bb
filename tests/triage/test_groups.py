"""Failures of two releases: new, gone, known, flaky, and grouped by cause; the release in which one began."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_torch_compile.triage.bisection import bisect
from pytest_torch_compile.triage.failed_tests import Cause, Failure, Result, Route
from pytest_torch_compile.triage.groups import grouped, lost, reproduced, unsure

BREAK = Cause("graph-break", "call to print or a logger", "vit.py in forward")
WRONG = Cause("numerics", "inductor", "Attention", "aten.silu")
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
    assert unsure(old, new) == ["a", "b", "d", "e"]
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


def test_group_has_its_own_reproduction_or_says_why_there_is_none():
    both = run("a", BREAK, WRONG)
    breaks, wrong = grouped({}, {"a": both}, {}, {})

    def shows(number, path="", why=""):
        failures = list(both.failures)
        failures[number] = replace(failures[number], reproduction=path, diagnosis=(why,))
        return {"a": replace(both, failures=tuple(failures))}

    assert reproduced(breaks, shows(0, "it.py")).example.reproduction == "it.py"
    assert reproduced(wrong, shows(0, "it.py")) == wrong
    why = "no reproduction: its size depends on values"
    assert reproduced(wrong, shows(1, why=why)).example.diagnosis == (why,)


def test_wrong_result_whose_stage_one_side_does_not_know_is_known():
    assert summary(grouped(runs(a=(UNKNOWN,)), runs(a=(WRONG,)), {}, {})) == [("known", WRONG, ("a",))]


@pytest.mark.parametrize("other", [{}, {"a": Result("skipped")}], ids=["not-there", "skipped"])
def test_nothing_is_said_of_a_torch_on_which_a_test_did_not_run(other):
    assert summary(grouped(other, runs(a=(BREAK,)), {}, {})) == [("not run on the old torch", BREAK, ("a",))]
    assert summary(grouped(runs(a=(BREAK,)), other, {}, {})) == [("not run on the new torch", BREAK, ("a",))]
    assert list(lost(runs(a=()), other)) == ["a"] and lost(other, runs(a=())) == {}


def test_file_that_only_the_new_torch_cannot_import_is_new():
    old = {"test_a.py::test": run("test_a.py::test")}
    new = {"test_a.py": run("test_a.py", WRONG)}
    assert summary(grouped(old, new, {}, {})) == [("new", WRONG, ("test_a.py",))]
    assert summary(grouped({}, new, {}, {})) == [("not run on the old torch", WRONG, ("test_a.py",))]


def test_failure_whose_cause_varies_is_not_flaky():
    groups = grouped(runs(a=()), runs(a=(BREAK,)), runs(a=()), runs(a=(WRONG,)))
    assert summary(groups) == [("new", BREAK, ("a",))]


def test_failure_that_the_old_torch_shows_at_its_second_run_is_flaky():
    groups = grouped(runs(a=()), runs(a=(BREAK,)), runs(a=(BREAK,)), runs(a=(BREAK,)))
    assert summary(groups) == [("flaky", BREAK, ("a",))]


def test_failure_that_is_marked_as_expected_is_known_and_gone_once_it_passes():
    (failure,) = run("a", BREAK).failures
    expected = {"a": Result("failed", 1.0, (replace(failure, expected=True),))}
    assert summary(grouped(runs(a=()), expected, {}, {})) == [("known", BREAK, ("a",))]
    assert summary(grouped(expected, runs(a=()), {}, {})) == [("gone", BREAK, ("a",))]


@pytest.mark.parametrize(
    "less", [replace(WRONG, what="unknown stage"), replace(WRONG, op=""), replace(WRONG, where="")], ids=str
)
def test_wrong_result_of_which_one_run_knows_less_is_the_same(less):
    assert less.may_be(WRONG) and WRONG.may_be(less)


def test_wrong_results_of_two_ops_are_two_causes():
    assert not WRONG.may_be(replace(WRONG, op="aten.exp")) and not WRONG.may_be(replace(WRONG, kind="gradient"))


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


@pytest.mark.parametrize("silent", [{}, {"a": Result("skipped")}, runs(a=(WRONG,))], ids=["absent", "skipped", "other"])
def test_release_that_says_nothing_about_a_failure_is_left_out(silent):
    def run_on(release, tests):
        return silent if release == "2.13.0" else runs(a=(BREAK,) if release > "2.13.0" else ())

    (group,) = bisect(grouped(runs(a=()), runs(a=(BREAK,)), {}, {}), RELEASES, run_on)
    assert (group.last_good, group.first_bad) == ("2.12.0", "2.14.0")


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
