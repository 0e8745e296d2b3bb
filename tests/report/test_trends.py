"""Figures over earlier results, of the run and of each test."""

from __future__ import annotations

from pytest_torch_compile.report import document, trends
from tests.report import documents


def ran(*runs: list) -> document.Document:
    """Several results in a row, each from the cases of a run."""
    made, history = documents.made(), []
    for day, cases in enumerate(runs, 1):
        made = documents.made(*cases, created=f"2026-01-{day:02}", history=history)
        history = made["history"]
    return made


def by_test(made: document.Document) -> dict:
    names = {test["id"]: {} for test in made["tests"]}
    return trends.by_test(made["tests"], made["history"], names)


def test_a_test_is_shown_with_its_counts_and_how_often_it_failed():
    broken = [documents.case("a", "failed", documents.check(documents.finding(), breaks=2))]
    (shown,) = by_test(ran([documents.case("a", "passed", documents.check())], broken, broken))["tests"]
    assert shown["words"] == "failed in 2 of 3 results"
    assert {plot["title"]: plot["last"] for plot in shown["plots"]} == {"breaks": 2, "compile seconds": 2.5}


def test_a_speed_test_is_shown_with_its_speedup():
    runs = [[documents.case("a", speed=[documents.speed(compiled=time)])] for time in (0.001, 0.002)]
    made = ran(*runs)
    (shown,) = by_test(made)["tests"]
    assert [(plot["title"], plot["last"]) for plot in shown["plots"]] == [("speedup", 1.0)]
    assert {plot["title"]: plot["last"] for plot in trends.of_run(made["history"])}["speedup"] == 1.0


def test_what_changed_is_shown_before_what_did_not():
    def cases(day: int) -> list:
        worse = documents.case("worse", "failed" if day else "passed", documents.check(breaks=day))
        same = documents.case("same", "failed", documents.check(documents.finding(), breaks=1))
        fine = documents.case("fine", "passed", documents.check())
        return [fine, same, worse]

    assert [test["id"] for test in by_test(ran(cases(0), cases(1)))["tests"]] == ["worse", "same", "fine"]


def test_a_first_result_has_no_history_and_many_tests_are_counted():
    cases = [documents.case(f"test_{number}", "passed", documents.check()) for number in range(trends.MOST_TESTS + 2)]
    assert by_test(ran(cases)) == {"tests": [], "more": 0}
    shown = by_test(ran(cases, cases))
    assert (len(shown["tests"]), shown["more"]) == (trends.MOST_TESTS, 2)
