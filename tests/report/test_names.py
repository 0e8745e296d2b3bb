"""Names that do not fit are cut in the middle, and never in the part that tells two of them apart."""

from __future__ import annotations

import pytest

from pytest_torch_compile.report.names import shortened


def test_names_that_fit_are_whole():
    assert shortened(["a", "test_b"], 20) == ["a", "test_b"]


def test_a_name_that_does_not_fit_keeps_its_beginning_and_its_end():
    (short, other) = shortened(["tests/a/very/long/path/test_models.py::test_encoder", "test_b"], 30)
    assert short == "tests/a/v...s.py::test_encoder"
    assert len(short) == 30 and other == "test_b"


@pytest.mark.parametrize("room", [20, 30, 40, 80])
def test_names_with_the_same_beginning_and_end_stay_apart(room):
    names = [
        f"tests/models/test_all.py::test_model[{kind}-of-a-name-that-is-the-same-to-its-end] [Encoder]"
        for kind in ("one", "two")
    ]
    short = shortened(names, room)
    assert len(set(short)) == 2
    assert "one" in short[0] and "two" in short[1]
    assert all(name.startswith("tes") and name.endswith("r]") for name in short)


def test_names_that_differ_at_their_beginning_stay_apart():
    ends = "test_encoder_with_a_long_name.py::test_forward_with_a_long_name"
    short = shortened([f"{folder}/{ends}" for folder in ("alpha", "omega")], 40)
    assert [name[:5] for name in short] == ["alpha", "omega"]


def test_names_that_differ_in_the_middle_and_at_the_end_stay_apart():
    names = [f"t.py::test[{a}-{'x' * 60}-{b}-{'y' * 60}]" for a in ("a1", "a2") for b in ("b1", "b2")]
    assert len(set(shortened(names, 30))) == 4


@pytest.mark.parametrize("place", range(0, 100, 7))
def test_one_letter_that_differs_anywhere_is_kept(place):
    first = "".join(chr(97 + number % 23) for number in range(100))
    other = first[:place] + "Z" + first[place + 1 :]
    short = shortened([first, other], 30)
    assert "Z" in short[1] and "Z" not in short[0]
    assert all(len(name) == 30 for name in short)


def test_names_that_are_the_same_are_not_widened():
    names = ["tests/a/very/long/path/test_models.py::test_encoder"] * 2
    assert all(len(name) == 30 for name in shortened(names, 30))
