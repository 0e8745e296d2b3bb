"""The table at the end of a session: rows that can be told apart, and failures that were expected."""

from __future__ import annotations

import pytest

from pytest_torch_compile.report.terminal import expected, shortened


def test_names_that_fit_are_whole():
    assert shortened(["a", "test_b"], 20) == ["a", "test_b"]


def test_name_that_does_not_fit_loses_its_beginning():
    (short, other) = shortened(["tests/a/very/long/path/test_models.py::test_encoder", "test_b"], 30)
    assert short == "...st_models.py::test_encoder"[-30:] or (
        short.startswith("...") and short.endswith("test_encoder")
    )
    assert len(short) == 30 and other == "test_b"


@pytest.mark.parametrize("room", [20, 30, 40, 80])
def test_names_with_the_same_end_stay_apart(room):
    names = [
        f"tests/models/test_all.py::test_model[{kind}-of-a-name-that-is-the-same-to-its-end] [Encoder]"
        for kind in ("one", "two")
    ]
    short = shortened(names, room)
    assert len(set(short)) == 2
    assert "one" in short[0] and "two" in short[1]


def test_names_that_differ_in_the_middle_and_at_the_end_stay_apart():
    names = [f"t.py::test[{a}-{'x' * 60}-{b}-{'y' * 60}]" for a in ("a1", "a2") for b in ("b1", "b2")]
    assert len(set(shortened(names, 30))) == 4


def test_checks_of_one_name_do_not_widen_the_table():
    names = ["tests/a/very/long/path/test_models.py::test_encoder"] * 2
    assert all(len(name) == 30 for name in shortened(names, 30))


def test_failure_that_was_expected_says_so():
    failed = {"verdict": "graph-break", "kinds": "graph-break"}
    assert expected(failed, "known failure") == {**failed, "verdict": "known failure (graph-break)"}
    passed = {"verdict": "pass, 1 not compared", "kinds": ""}
    assert expected(passed, "known failure") == passed
