"""Work that is counted: what it proves where times scatter, and what it must not prove. Made-up figures."""

from __future__ import annotations

import math

import pytest

from pytest_torch_compile.speed.deciding import wording as message
from pytest_torch_compile.speed.deciding.counts import more_work
from pytest_torch_compile.speed.deciding.verdict import judge, needs_another_process
from pytest_torch_compile.speed.sample import Figures

UNSTEADY = (0.0, 0.03, -0.03, 0.02, -0.02, 0.04, -0.04, 0.01, -0.01, 0.025)


def run(wall: float = 0.0, *, calls: int = 300, kernels: int = 30, device: float = 0.0, eager: float = 0.0) -> Figures:
    """A process whose compiled leg waits for its host, slower by these log ratios, with its counts."""

    def pair(seconds: float, slower: float) -> tuple[float, float, float]:
        legs = 2 * seconds * math.exp(eager), seconds * math.exp(slower)
        return *legs, math.log(legs[1] / legs[0])

    def counts(compiled: int) -> tuple[float, float, float]:
        return 900, compiled, math.log(compiled / 900)

    timed = {"wall": pair(1e-3, wall), "host": pair(0.95e-3, wall), "device": pair(1e-4, device)}
    return {**timed, "python-calls": counts(calls), "kernels": counts(kernels)}


STORED = [run(noise) for noise in UNSTEADY]


def outcome(*new: Figures, stored: list[Figures] | None = None) -> str:
    return judge(STORED if stored is None else stored, new, tests=12).outcome


def test_slower_host_that_calls_more_python_is_a_regression_on_an_unsteady_machine() -> None:
    found = judge(STORED, [run(0.06, calls=320), run(0.03, calls=318), run(0.05, calls=325)], tests=12)
    assert found.outcome == "regressed"
    assert [(c.metric, c.note) for c in found.changed("regressed")] == [
        ("wall", "Python calls of a call: 6.0 % more than in any stored run")
    ]


def test_the_same_times_with_the_same_calls_are_no_regression() -> None:
    assert outcome(run(0.06), run(0.03), run(0.05)) != "regressed"


def test_more_calls_that_cost_no_time_are_no_regression() -> None:
    assert outcome(run(0.0, calls=400), run(0.01, calls=400), run(-0.01, calls=400)) == "pass"


def test_more_calls_of_processes_that_scatter_as_much_as_they_are_slower_are_no_regression() -> None:
    steady = [run(noise / 10) for noise in UNSTEADY]
    assert outcome(run(0.04, calls=330), run(0.05, calls=330), run(0.03, calls=330), stored=steady) == "regressed"
    assert outcome(run(0.2, calls=330), run(0.05, calls=330), run(0.0, calls=330), stored=steady) != "regressed"


def test_more_calls_ask_for_another_process_even_where_the_first_was_fast() -> None:
    assert needs_another_process(STORED, [run(-0.01, calls=320)], tests=12)
    assert not needs_another_process(STORED, [run(-0.01)], tests=12)


def test_more_calls_that_clearly_cost_no_time_ask_for_nothing() -> None:
    steady = [run(noise / 10) for noise in UNSTEADY]
    assert not needs_another_process(steady, [run(0.0, calls=400)], tests=12)
    assert not needs_another_process(STORED, [run(-0.05, calls=400)], tests=12)


def test_more_calls_that_are_not_odd_by_time_are_worth_eight_processes() -> None:
    noise = (0.02, -0.02, 0.01, -0.01, 0.0, 0.015, -0.015, 0.0)
    slower, silently = [run(0.026 + n, calls=320) for n in noise], [run(0.026 + n) for n in noise]
    assert needs_another_process(STORED, slower[:5], tests=12)
    assert not needs_another_process(STORED, silently[:5], tests=12)
    assert outcome(*slower[:5]) != "regressed"
    assert outcome(*slower) == "regressed"
    assert not needs_another_process(STORED, [run(0.02, calls=320)] * 8, tests=12), "enough is enough"


def test_faster_kernels_do_not_end_the_look_at_a_host_that_does_more() -> None:
    new = [run(0.02, calls=320, device=-0.1)] * 3
    assert outcome(*new) == "improved"
    assert needs_another_process(STORED, new, tests=12)
    assert not needs_another_process(STORED, [run(0.02, device=-0.1)] * 3, tests=12)


def test_one_odd_process_is_no_regression_for_its_calls() -> None:
    assert outcome(run(0.5, calls=320), run(0.0, calls=320), run(0.01, calls=320)) != "regressed"


def test_fewer_than_three_processes_never_call_a_change() -> None:
    assert outcome(run(0.08, calls=320), run(0.08, calls=320)) == "inconclusive"


def test_faster_eager_is_not_called_a_slower_compile_for_its_calls() -> None:
    steady = [run(noise / 100) for noise in UNSTEADY]
    for stored in (steady, STORED):
        assert outcome(*[run(0.0, calls=320, eager=-0.05)] * 3, stored=stored) == "pass"


def test_one_kernel_more_counts_for_device_time() -> None:
    unsteady = [run(device=noise / 4) for noise in UNSTEADY]
    assert outcome(*[run(device=0.016, kernels=31)] * 3, stored=unsteady) == "regressed"
    assert outcome(*[run(device=0.016)] * 3, stored=unsteady) != "regressed"


@pytest.mark.parametrize(
    ("calls", "more"),
    [
        ((302, 302, 302), None),
        ((303, 303, 303), math.log(1.01)),
        ((400, 400, 300), None),
        ((330, 340, 360), math.log(1.1)),
        ((200, 200, 200), None),
    ],
    ids=["two-more", "one-percent-more", "not-in-all", "in-all", "fewer"],
)
def test_more_is_what_every_new_run_has_over_every_stored_one(calls: tuple[int, ...], more: float | None) -> None:
    assert more_work("wall", STORED, [run(calls=count) for count in calls]) == pytest.approx(more)


@pytest.mark.parametrize(("calls", "counts"), [(41, False), (42, True)], ids=["one-more", "two-more"])
def test_one_call_more_is_none_however_few_there_are(calls: int, counts: bool) -> None:
    assert bool(more_work("wall", [run(calls=40)] * 3, [run(calls=calls)])) == counts


def test_what_was_not_counted_proves_nothing() -> None:
    uncounted = {name: pair for name, pair in run().items() if name != "python-calls"}
    assert more_work("wall", [uncounted] * 10, [run(calls=900)]) is None
    assert more_work("wall", STORED[:2], [run(calls=900)]) is None
    assert more_work("wall", STORED, [uncounted]) is None
    assert more_work("memory", STORED, [run(calls=900)]) is None


def test_calls_of_another_python_are_not_compared() -> None:
    def by(python: str, calls: int = 300) -> Figures:
        return {f"{name}-{python}" if name == "python-calls" else name: pair for name, pair in run(calls=calls).items()}

    stored = [by("3.11")] * 3
    assert more_work("wall", stored, [by("3.11", 900)]) == pytest.approx(math.log(3))
    assert more_work("wall", stored, [by("3.12", 900)]) is None
    shown = message.table([*stored, run()], [by("3.11", 900)])
    assert "compiled Python calls          300         900  +200.0 %" in shown
    assert "Python calls" not in message.table(stored, [by("3.12", 900)])


def test_message_shows_the_counts_of_both_legs() -> None:
    new = [run(0.06, calls=320)] * 3
    text = message.explain("test_speed.py::test_it", judge(STORED, new, tests=12), STORED, new)
    assert "Python calls of a call: 6.7 % more than in any stored run" in text
    assert any(line.split() == ["compiled", "Python", "calls", "300", "320", "+6.7", "%"] for line in text.splitlines())
