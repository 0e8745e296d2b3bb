"""Annotations: on the user's line, worst first, within the limits, and only ours."""

from __future__ import annotations

import pytest

from pytest_torch_compile.report import github
from tests.report import documents


def test_a_finding_is_put_on_the_users_line():
    made = documents.made(documents.case("a", "failed", documents.check(documents.finding())))
    (one,) = github.ranked(made)
    assert one.command() == (
        "::error file=src/model.py,line=3,title=torch.compile%3A graph-break"
        "::graph break 1 of 1, 0 allowed%0Aif y.sum() > 0:%0Afix: use torch.where"
    )


def test_the_cause_of_a_finding_is_told():
    (one,) = github.ranked(documents.caused_by_a_setting())
    assert "%0Acause: torch._dynamo.config.disable is True" in one.command()


def test_a_finding_in_a_library_is_put_on_the_test():
    bad = documents.finding(location=documents.line(9, "/usr/lib/python/torch/nn.py"))
    (one,) = github.ranked(documents.made(documents.case("a", "failed", documents.check(bad))))
    assert (one.file, one.line) == ("tests/test_a.py", 7)


def test_a_prefix_places_tests_of_a_subfolder():
    made = documents.made(documents.case("a", "failed", documents.check(documents.finding())))
    assert github.ranked(made, "python/")[0].file == "python/src/model.py"


def test_wrong_numbers_come_before_breaks_and_the_rest_is_counted():
    tests = [
        documents.case(f"t{n}", "failed", documents.check(documents.finding(location=documents.line(n + 1))))
        for n in range(30)
    ]
    wrong = documents.finding("numerics", "wrong", location=documents.line(99))
    found = github.ranked(documents.made(*tests, documents.case("z", "failed", documents.check(wrong))))
    assert len(found) == github.PER_LEVEL
    assert found[0].line == 99
    assert found[-1].message == "22 more findings: see the step summary"


def test_one_break_met_by_many_tests_is_one_annotation():
    tests = [documents.case(f"t{n}", "failed", documents.check(documents.finding())) for n in range(5)]
    (one,) = github.ranked(documents.made(*tests))
    assert one.message.endswith("(and 4 more findings of this kind on this line)")


def test_speed_without_a_baseline_is_a_warning_and_a_regression_an_error():
    quiet = documents.case("a", speed=[documents.speed("no-baseline")])
    slow = documents.case("b", "failed", speed=[documents.speed("regressed")])
    assert [one.level for one in github.ranked(documents.made(quiet, slow))] == ["error", "warning"]


def test_known_failures_and_passing_tests_make_none():
    known = documents.case("a", "xfailed", documents.check(documents.finding()))
    assert github.ranked(documents.made(known, documents.case("b"))) == []


@pytest.mark.parametrize("text", documents.HOSTILE)
def test_hostile_text_stays_inside_one_command(text):
    command = github.Annotation("error", text, 3, text, text).command()
    assert "\n" not in command
    assert "\r" not in command
    head, _, _ = command.removeprefix("::error ").partition("::")
    assert head.count(",") == 2
    assert head.count(":") == 0


def test_long_messages_are_cut():
    command = github.Annotation("error", "a.py", 1, "t", "x" * 100_000).command()
    assert len(command) < github.MESSAGE_LIMIT + 200
