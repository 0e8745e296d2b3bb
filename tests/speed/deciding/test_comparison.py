"""What new runs are held against: runs of the same compiled code, or other compilations. Made-up figures."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest

from pytest_torch_compile.speed.deciding.comparison import SpeedComparison
from pytest_torch_compile.speed.sample import Figures

NOISE = (0.0, 0.002, -0.001, 0.001, -0.002)


def run(device: float) -> Figures:
    """A process whose compiled leg waits for its kernels, which are slower by this log ratio."""
    pair = 1e-3, 5e-4 * math.exp(device), math.log(0.5) + device
    host = 1e-4, 1e-4, 0.0
    return {"device": pair, "wall": pair, "host": host}


def stored(*compilations: float) -> tuple[list[Figures], list[str]]:
    """Five processes of each compilation, whose kernels are slower by these log ratios."""
    runs = [run(slower + noise) for slower in compilations for noise in NOISE]
    return runs, [f"code {number}" for number in range(len(compilations)) for _ in NOISE]


def held(code: str, *compilations: float) -> SpeedComparison:
    runs, codes = stored(*compilations)
    return SpeedComparison.of(runs, codes, code, tests=12, priors={})


def test_same_code_is_held_against_its_own_runs_only() -> None:
    found = held("code 1", 0.0, 0.15)
    assert (len(found.runs), found.other) == (5, False)
    assert found.judge([run(0.15)] * 3).outcome == "pass"
    assert found.judge([run(0.19)] * 3).outcome == "regressed"


def test_code_with_too_few_runs_is_held_against_all() -> None:
    runs, codes = stored(0.0)
    found = SpeedComparison.of([*runs, run(0.0)], [*codes, "new"], "new", tests=12, priors={})
    assert (len(found.runs), found.other) == (6, True)


def test_where_nothing_is_known_of_codes_all_runs_count() -> None:
    runs, _ = stored(0.0, 0.01)
    assert not SpeedComparison.of(runs, [""] * len(runs), "", tests=12, priors={}).other


def test_nothing_stored_is_no_baseline() -> None:
    assert SpeedComparison.of([], [], "new", tests=12, priors={}).judge([run(0.0)]).outcome == "no-baseline"


def test_other_code_within_the_stored_compilations_passes() -> None:
    assert held("new", 0.0, 0.15).judge([run(0.14)]).outcome == "pass"
    assert not held("new", 0.0, 0.15).needs_another([run(0.14)])


def test_other_code_somewhat_slower_is_inconclusive_and_asks_for_nothing() -> None:
    found = held("new", 0.0).judge([run(0.05)])
    assert found.outcome == "inconclusive"
    assert "keep the cache" in found.reason
    assert not held("new", 0.0).needs_another([run(0.05)])


def test_other_code_much_slower_is_compiled_twice_more_and_then_called() -> None:
    against = held("new", 0.0, 0.01, 0.02)
    assert against.needs_another([run(0.2)])
    assert against.needs_another([run(0.2)] * 2)
    assert not against.needs_another([run(0.2)] * 3)
    assert against.judge([run(0.2)] * 2).outcome == "inconclusive"
    device, wall = against.judge([run(0.2)] * 3).changed("regressed")
    assert (device.metric, wall.metric) == ("device", "wall")
    assert 0.01 + math.log(1.1) < device.floor < 0.02 + math.log(1.1), "over the slowest of them, not their mean"


@pytest.mark.parametrize(("slower", "called"), [(0.2, ["device"]), (0.0, [])], ids=["slower kernels", "unchanged"])
def test_host_that_is_slower_for_both_legs_is_no_slower_compilation(slower: float, called: list[str]) -> None:
    """Seen on an H200: a host twice as slow held up a model that waits for its kernels elsewhere."""
    slow_host = {"wall": (2.1e-3, 8e-4, math.log(8 / 21)), "host": (2e-3, 7.8e-4, math.log(0.39))}
    before = [{**each, "wall": (1e-3, 5e-4, math.log(0.5)), "host": (9e-4, 3.5e-4, math.log(0.39))}
              for each in stored(0.0, 0.01, 0.02)[0]]  # fmt: skip
    against = SpeedComparison.of(before, stored(0.0, 0.01, 0.02)[1], "new", tests=12, priors={})
    found = against.judge([{**run(slower), **slow_host}] * 3)
    assert [c.metric for c in found.changed("regressed")] == called
    assert "the host was slower for eager alike" in found.reason


def test_other_code_that_calls_more_functions_is_no_slower_host_by_that() -> None:
    """Seen on an H200: another compilation of an unchanged model called 1175 functions for 1142."""

    def process(calls: int, **slower: tuple[float, float, float]) -> Figures:
        steady = {"wall": (1e-3, 5e-4, math.log(0.5)), "host": (9e-4, 3.5e-4, math.log(0.39))}
        return {**run(0.0), **steady, **slower, "python-calls": (900, calls, math.log(calls / 900))}

    slow_host = {"wall": (2.1e-3, 8e-4, math.log(8 / 21)), "host": (2e-3, 7.8e-4, math.log(0.39))}
    codes = [f"code {number % 3}" for number in range(15)]
    against = SpeedComparison.of([process(1142)] * 15, codes, "new", tests=12, priors={})
    assert against.judge([process(1175, **slow_host)] * 3).outcome == "inconclusive"


def test_one_bad_compilation_is_no_regression() -> None:
    against, new = held("new", 0.0, 0.01, 0.02), [run(0.2), run(0.0)]
    assert not against.needs_another(new)
    assert against.judge(new).outcome == "pass"


def test_two_stored_compilations_do_not_say_how_compilations_scatter() -> None:
    against = held("new", 0.0, 0.01)
    assert not against.needs_another([run(0.2)])
    assert against.judge([run(0.2)] * 3).outcome == "inconclusive"


def test_memory_of_another_compilation_is_not_judged() -> None:
    """Seen on an H200: processes that autotuned held 58 % more in both legs, the workspaces of what they had tried."""
    runs, codes = stored(0.0, 0.01, 0.02)
    runs = [{**each, "memory": (7.2e7, 8.1e7, 0.12)} for each in runs]
    tuned_here = {**run(0.0), "memory": (1.06e8, 1.65e8, 0.44)}
    against = SpeedComparison.of(runs, codes, "new", tests=12, priors={})
    assert not against.needs_another([tuned_here])
    assert against.judge([tuned_here] * 3).outcome == "pass"
    assert SpeedComparison.of(runs, codes, "code 1", tests=12, priors={}).judge([tuned_here] * 3).outcome == "regressed"


def tuned(*tunings: str, by_source: bool = True) -> SpeedComparison:
    """Runs of one source, tuned as named."""
    codes, runs = [f"source/{tuning}" for tuning in tunings], [run(NOISE[i % 5]) for i in range(len(tunings))]
    return SpeedComparison.of(runs, codes, "source/new", tests=12, priors={}, by_source=by_source)


def test_new_tuning_among_few_is_held_against_its_source_and_only_asks() -> None:
    against = tuned("a", "a", "a", "a", "a", "b")
    assert (len(against.runs), against.other, against.retuned) == (6, False, True)
    assert against.needs_another([run(0.05)]) and not against.needs_another([run(0.0)])
    assert against.admits("source/b", ["source/new"]) and not against.admits("source/newer", ["source/new"])
    assert tuned("a", "a", "a", "a", "a", "b", by_source=False).other


def test_new_tuning_of_a_source_with_few_runs_is_another_compilation() -> None:
    codes = ["source/a"] * 4 + ["elsewhere/a"] * 4
    assert SpeedComparison.of([run(NOISE[i % 5]) for i in range(8)], codes, "source/new", tests=12, priors={}).other


def test_new_tuning_among_many_is_one_more_of_them() -> None:
    against = tuned("a", "b", "b", "c", "d", "e")
    assert (len(against.runs), against.other) == (5, False)
    assert against.judge([run(0.0)]).outcome == "pass"
    assert against.judge([run(0.05)] * 3).outcome == "regressed"
    assert tuned("a", "b", "b", "c", "d", "e", by_source=False).other


@pytest.mark.parametrize(
    ("tunings", "code", "outcome"),
    [("abcde", "new", "pass"), ("abcde", "a", "pass"), ("aaaab", "new", "pass"), ("aaaaa", "a", "regressed")],
    ids=["new among many", "one of many", "new among few", "the only one"],
)
def test_memory_is_judged_only_where_all_runs_are_tuned_alike(tunings: str, code: str, outcome: str) -> None:
    """Seen on an H200: of 13 processes that tuned one source, five held 32 MiB more."""
    runs = [{**run(noise), "memory": (7.2e7, 4.5e7, -0.47)} for noise in NOISE]
    against = SpeedComparison.of(runs, [f"source/{its}" for its in tunings], f"source/{code}", tests=12, priors={})
    assert against.judge([{**run(0.0), "memory": (7.2e7, 7.9e7, 0.09)}] * 3).outcome == outcome


def test_new_tuning_confirms_once() -> None:
    against = tuned("a", "b", "c", "d", "e")
    assert against.admits("source/newer", ["source/new"]) and against.admits("source/a", ["source/new"])
    assert not against.admits("source/new", ["source/new"])
    assert not against.admits("other/new", ["source/new"])


def test_tuning_that_is_stored_is_held_against_all_runs_of_its_source() -> None:
    codes = ["source/a"] * 4 + ["source/b"] * 2 + ["other/a"] * 5
    against = SpeedComparison.of([run(NOISE[i % 5]) for i in range(11)], codes, "source/b", tests=12, priors={})
    assert (len(against.runs), against.other) == (6, False)
    assert against.admits("source/a", ["source/b"]) and not against.admits("source/c", ["source/b"])


def test_many_processes_of_one_compilation_are_one_compilation() -> None:
    assert held("new", 0.0, 0.01, 0.02).judge([run(0.2)] * 5, compilations=1).outcome == "inconclusive"


def test_problem_of_the_device_comes_first() -> None:
    assert held("new", 0.0).judge([run(0.5)] * 3, ["throttled"]).reason == "throttled"


def test_imports_neither_torch_nor_pytest() -> None:
    code = "import sys, pytest_torch_compile.speed.deciding.comparison; print([m for m in ('torch', 'pytest') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
