"""The statistics against values from tables and against simulation."""

from __future__ import annotations

import math
import random

import pytest

from pytest_torch_compile.speed.deciding import statistics as st


@pytest.mark.parametrize(
    ("t", "freedom", "tail"),
    [
        (0, 3, 0.5),
        (2.228, 10, 0.025),
        (4.144, 10, 0.001),
        (12.706, 1, 0.025),
        (-2.228, 10, 0.975),
    ],
)
def test_tail_of_student_t_is_that_of_the_table(t: float, freedom: float, tail: float) -> None:
    assert st.t_tail(t, freedom) == pytest.approx(tail, rel=2e-3)


def test_quantile_of_student_t_inverts_its_tail() -> None:
    for probability in (0.6, 0.975, 0.9999):
        assert 1 - st.t_tail(st.t_quantile(probability, 7), 7) == pytest.approx(probability)


def test_trimmed_mean_ignores_outliers() -> None:
    assert st.trimmed_mean([1.0, 1.1, 0.9, 1.0, 1000.0, -1000.0, 1.0, 1.0]) == pytest.approx(1.0, abs=0.05)


def test_interval_of_the_trimmed_mean_covers_the_truth() -> None:
    rng = random.Random(1)
    inside = 0
    for _ in range(400):
        values = [rng.gauss(0.3, 0.05) for _ in range(20)]
        inside += abs(st.trimmed_mean(values) - 0.3) <= st.half_width(values)
    assert 0.90 <= inside / 400 <= 0.99


def test_interval_needs_three_kept_values() -> None:
    assert st.half_width([1.0, 2.0]) == math.inf


def test_log_ratio_is_positive_when_the_measured_leg_is_slower() -> None:
    assert st.log_ratios([1.0, 2.0], [2.0, 1.0]) == pytest.approx([math.log(2), -math.log(2)])
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        st.log_ratios([1.0, 2.0], [2.0])
