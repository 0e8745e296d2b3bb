"""Verdicts from made-up runs: what is called changed, what is not, and whose fault it is."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import pytest

from pytest_torch_compile.speed.deciding import confirmation
from pytest_torch_compile.speed.deciding import wording as message
from pytest_torch_compile.speed.deciding.origin import split_wall
from pytest_torch_compile.speed.deciding.scatter import (
    METRICS,
    control_of,
    prior_for,
    prior_spread,
    priors_of,
    reference,
)
from pytest_torch_compile.speed.deciding.verdict import changes_of, judge, needs_another_process
from pytest_torch_compile.speed.sample import Figures

NOISE = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0015, -0.0005, 0.0005, -0.0015, 0.001)


def run(
    *, device: float = 0.0, wall: float = 0.0, host: float = 0.0, eager: float = 0.0, bound: str = "device"
) -> Figures:
    """A process's figures: the compiled leg slower by these log ratios, the eager leg by ``eager``."""
    device_seconds = 900e-6 if bound == "device" else 100e-6
    host_seconds = 300e-6 if bound == "device" else 950e-6
    wall_seconds = 1000e-6

    def pair(seconds: float, slower: float) -> tuple[float, float, float]:
        legs = 2 * seconds * math.exp(eager), seconds * math.exp(slower)
        return *legs, math.log(legs[1] / legs[0])

    return {"device": pair(device_seconds, device), "host": pair(host_seconds, host), "wall": pair(wall_seconds, wall)}


def stored(**options: str) -> list[Figures]:
    return [run(device=n, wall=3 * n, host=3 * n, **options) for n in NOISE]  # type: ignore[arg-type]


def outcome(*new: Figures, base: list[Figures] | None = None, tests: int = 12) -> str:
    """The verdict from these runs, and the last of them once more."""
    return judge(stored() if base is None else base, (*new, new[-1]), tests=tests).outcome


def test_unchanged_runs_pass() -> None:
    assert outcome(run(device=0.002, wall=0.005), run(device=-0.001, wall=0.004)) == "pass"


def test_slower_kernels_are_a_regression() -> None:
    found = judge(stored(), [run(device=0.02, wall=0.018)] * 3, tests=12)
    assert found.outcome == "regressed"
    assert [change.metric for change in found.changed("regressed")] == ["device"]


def test_slower_host_is_a_regression_of_wall_time_only() -> None:
    found = judge(stored(bound="host"), [run(wall=0.05, host=0.05, bound="host")] * 3, tests=12)
    assert [change.metric for change in found.changed("regressed")] == ["wall"]


def test_faster_is_improved() -> None:
    assert outcome(run(device=-0.05, wall=-0.05), run(device=-0.05, wall=-0.05)) == "improved"


@pytest.mark.parametrize("processes", [1, 2])
def test_fewer_than_three_processes_never_call_a_change(processes: int) -> None:
    found = judge(stored(), [run(device=0.3, wall=0.3)] * processes, tests=12)
    assert found.outcome == "inconclusive"
    assert "was not confirmed in fresh processes" in found.reason


def another(*new: Figures, base: list[Figures] | None = None) -> bool:
    return needs_another_process(stored() if base is None else base, new, tests=12)


def test_only_odd_runs_ask_for_another_process() -> None:
    assert another(run(device=0.02))
    assert not another(run(device=0.001))
    assert not another(run(device=0.5), base=[])


def test_processes_are_added_until_it_is_clear() -> None:
    assert another(run(device=0.02), run(device=0.02)), "too few to say so"
    assert not another(run(device=0.02), run(device=0.02), run(device=0.02)), "clearly slower"
    assert not another(run(device=0.02), run(device=-0.019)), "clearly not"
    noisy = [run(device=n) for n in (-0.008, 0.008, 0.004, -0.004, 0.006)]
    assert another(*[run(device=0.02 + noise) for noise in (0.006, -0.006, 0.0)], base=noisy)
    assert not another(*[run(device=0.02)] * confirmation.MAX_PROCESSES, base=noisy), "enough is enough"


def test_where_processes_scatter_up_to_eight_decide() -> None:
    noisy = [run(device=6 * n) for n in NOISE]
    slower = [run(device=0.02 + 6 * n) for n in (0.0, 0.002, -0.001, 0.001, -0.002, 0.0015, -0.0005, 0.0005)]
    assert all(another(*slower[:count], base=noisy) for count in range(1, 8))
    assert [judge(noisy, slower[:count], tests=12).outcome for count in (7, 8)] == ["inconclusive", "regressed"]


def test_one_odd_process_is_no_regression() -> None:
    odd = [run(device=0.5, wall=0.5), run(), run()]
    found = judge(stored(), odd, tests=12)
    assert (found.outcome, found.changes[0].note) == ("pass", "one process was +64.9 % off, the other 2 were not")
    assert not another(*odd), "two processes have said that it is none"
    assert judge(stored(), [run(device=0.036), run(device=0.03), run(device=0.03)], tests=12).outcome == "regressed"


def test_one_that_is_far_beyond_others_which_are_all_slower_hides_nothing() -> None:
    slower = [run(device=0.1), *[run(device=0.03)] * 3]
    assert another(*slower[:3])
    assert judge(stored(), slower, tests=12).outcome == "regressed"
    assert judge(stored(), [slower[0], run(device=0.03), run(), run()], tests=12).outcome == "inconclusive"


def test_new_processes_that_agree_by_luck_prove_no_more_than_the_stored_ones_scatter() -> None:
    unsteady = [run(device=6 * n) for n in NOISE]
    assert judge(unsteady, [run(device=0.019)] * 3, tests=12).outcome == "inconclusive"
    assert judge(stored(), [run(device=0.019)] * 3, tests=12).outcome == "regressed"


def test_processes_that_scatter_more_than_the_stored_ones_prove_less() -> None:
    """Seen on an H200: a host that became unsteady, an unchanged model, and wall times 2 % under to 12 % over."""
    many = [run(wall=noise, host=noise) for noise in NOISE] * 3
    for wild in ((0.02, 0.05, 0.12), (0.033, 0.03, -0.018, 0.063, 0.118)):
        steady = [sum(wild) / len(wild)] * 3
        for effects, called in ((wild, "inconclusive"), (steady, "regressed")):
            new = [run(wall=its, host=its) for its in effects]
            assert {judge(base, new, tests=12).outcome for base in (stored(), many)} == {called}


def test_two_of_three_odd_processes_are_not_one() -> None:
    for two in ((0.03, 0.012, -0.002), (0.05, 0.05, -0.05), (-0.05, -0.05, 0.04)):
        odd = [run(device=effect) for effect in two]
        assert judge(stored(), odd, tests=12).outcome == "inconclusive"


def test_change_that_one_process_makes_out_is_looked_at_again() -> None:
    steady, mostly_one = [run()] * 10, [run(device=0.0125), run(device=0.0095), run(device=0.0095)]
    assert judge(steady, mostly_one, tests=12).outcome == "inconclusive"
    assert another(*mostly_one, base=steady)
    assert judge(steady, [*mostly_one, run(device=0.016)], tests=12).outcome == "regressed"
    assert judge(steady, [*mostly_one, run(device=0.0)], tests=12).outcome != "regressed"


def test_no_stored_run_is_no_baseline() -> None:
    assert outcome(run(), base=[]) == "no-baseline"


def test_a_problem_of_the_device_is_inconclusive() -> None:
    found = judge(stored(), [run(device=0.5)] * 3, tests=12, problems=["2 other processes used the device"])
    assert (found.outcome, found.reason) == ("inconclusive", "2 other processes used the device")


def test_change_under_the_floor_passes_however_significant() -> None:
    still = [run()] * 10
    assert outcome(run(device=0.009), run(device=0.009), base=still) == "pass"
    assert outcome(run(device=0.03), run(device=0.03), base=still) == "regressed"


def test_floor_is_what_a_a_runs_established() -> None:
    wide = [run(device=n) for n in (-0.03, 0.03, 0.0, 0.02, -0.02)]
    assert reference("device", stored()).floor == METRICS["device"].floor
    assert reference("device", wide).floor == pytest.approx(0.0364, abs=1e-4)
    assert outcome(run(device=0.035), run(device=0.035), base=wide) == "pass"


def test_larger_suites_ask_for_stronger_evidence() -> None:
    noisy = [run(wall=n) for n in (-0.02, 0.02, 0.01, -0.01, 0.015)]
    new = (run(wall=0.065, host=0.065), run(wall=0.065, host=0.065))
    assert outcome(*new, base=noisy, tests=1) == "regressed"
    assert outcome(*new, base=noisy, tests=1000) == "inconclusive"


def test_few_stored_runs_lean_on_the_suites_spread() -> None:
    lucky = [run(), run(wall=0.0001)]
    assert reference("wall", lucky).spread > 0.005
    assert reference("wall", lucky, prior=0.0001).spread < 0.001


def test_prior_is_the_typical_spread_of_the_suite() -> None:
    values = [(0.0, 0.01, 0.02, 0.01), (0.0, 0.03, 0.0, 0.03), (0.1,) * 4, (0.0, 0.02, 0.0, 0.02)]
    histories = [[run(wall=value) for value in history] for history in values]
    assert prior_spread("wall", histories) == pytest.approx(0.00986, abs=1e-4)
    assert prior_spread("wall", histories[:2]) == METRICS["wall"].spread
    assert prior_spread("device", [[run()] * 5] * 5) > 0


def test_faster_eager_is_not_a_slower_compile() -> None:
    found = judge(stored(), [run(eager=-0.2)] * 3, tests=12)
    assert found.outcome == "pass"
    assert "eager got faster, the compiled leg is not slower" in found.reason
    assert outcome(run(eager=-0.2, device=0.05), run(eager=-0.2, device=0.05)) == "regressed"


def test_leg_that_waits_for_its_kernels_is_held_against_eagers_kernels() -> None:
    assert control_of("wall", stored()) == "device"
    assert control_of("wall", stored()[:1]) == "device", "one run tells: it needs no spread"


def test_leg_that_waits_for_its_host_is_held_against_eagers_wall_time() -> None:
    assert control_of("wall", stored(bound="host")) == "wall"
    without_host = [{name: pair for name, pair in each.items() if name != "host"} for each in stored()]
    assert control_of("wall", without_host) == "wall", "nothing is known of its host"


def test_few_runs_borrow_from_tests_that_are_held_against_the_same() -> None:
    steady = [[run(wall=step * n) for n in NOISE] for step in (1, 1.1, 1.2, 1.3)]
    unsteady = [[run(wall=step * n, bound="host") for n in NOISE] for step in (9, 10, 11, 12)]
    priors = priors_of([*steady, *unsteady])
    assert priors["wall/wall"] > 5 * priors["wall/device"]
    assert prior_for("wall", stored(bound="host"), priors) == priors["wall/wall"]
    assert prior_for("device", stored(), priors) == priors["device"]


def test_change_that_one_process_cannot_tell_from_noise_passes() -> None:
    base = [run(wall=10 * n, bound="host") for n in NOISE]
    odd = run(wall=0.025, bound="host")
    (found,) = [c for c in changes_of(base, [odd]) if c.metric == "wall"]
    assert found.p_value > 0.05
    assert judge(base, [odd], tests=12).outcome == "pass"


def test_gain_must_be_odder_than_a_loss_to_be_worth_another_process() -> None:
    base = [run(wall=10 * n, bound="host") for n in NOISE]
    loss, gain = run(wall=0.031, bound="host"), run(wall=-0.031, bound="host")
    assert needs_another_process(base, [loss], tests=12)
    assert not needs_another_process(base, [gain], tests=12)
    assert needs_another_process(base, [run(wall=-0.1, bound="host")], tests=12)


def test_metric_that_only_some_stored_runs_have_is_judged_by_those() -> None:
    bytes_ = {"memory": (2e9, 1e9, math.log(0.5))}
    base = [*stored(), *({**each, **bytes_} for each in stored())]
    grown = {**run(), "memory": (2e9, 1.2e9, math.log(0.6))}
    assert judge(base, [grown] * 3, tests=12).changed("regressed")[0].metric == "memory"
    assert judge(stored(), [grown] * 3, tests=12).outcome == "pass"


def test_eager_that_is_as_fast_as_it_sometimes_was_excuses_nothing() -> None:
    unsteady = [run(eager=s, device=s + n, wall=s + 3 * n, host=s) for n, s in zip(NOISE, (0.1, -0.1) * 5, strict=True)]
    assert judge(unsteady, [run(eager=-0.15)] * 3, tests=12).outcome == "regressed"
    assert judge(unsteady, [run(eager=-0.3)] * 3, tests=12).outcome == "pass"


def test_device_that_is_slower_for_both_legs_is_no_regression() -> None:
    unsteady = [run(eager=10 * n, device=n) for n in NOISE]
    assert control_of("device", unsteady) == ""
    other_board = judge(unsteady, [run(eager=0.03, device=0.03)] * 3, tests=12)
    assert other_board.outcome == "inconclusive"
    assert "eager got slower alike" in other_board.reason
    assert outcome(run(device=0.03), run(device=0.03), base=unsteady) == "regressed"


def test_host_that_is_slower_for_both_legs_is_no_regression() -> None:
    """Seen on an H200: a forward pass whose host is nearly as slow as its kernels, in a process where Python was slow."""
    slow_process = judge(stored(), [run(wall=0.05)] * 3, tests=12)
    assert slow_process.outcome == "inconclusive"
    assert "the host was slower for eager alike" in slow_process.reason
    base = [{**each, "python-calls": (900.0, 800.0, math.log(8 / 9))} for each in stored()]
    busier = [{**run(wall=0.05), "python-calls": (900.0, 880.0, math.log(88 / 90))}] * 3
    found = judge(base, busier, tests=12)
    assert found.outcome == "regressed", "a leg that calls more functions is slower by itself"
    assert " where more work is counted, p = " in message.headline(found.changed("regressed")[0])
    assert outcome(run(wall=0.05, host=0.05), run(wall=0.05, host=0.05)) == "regressed"
    for host, called in ((0.024, "inconclusive"), (0.026, "regressed")):
        assert judge(stored(), [run(wall=0.05, host=host)] * 3, tests=12).outcome == called, "half of it explains it"


def test_regression_is_judged_by_the_runs_that_hold_what_it_takes() -> None:
    partly = [{name: pair for name, pair in run().items() if name != "device"}, *stored()]
    assert judge(partly, [run(device=0.05)] * 3, tests=12).outcome == "regressed"


def test_memory_has_its_own_kind() -> None:
    memory = [{**r, "memory": (2e9, 1e9, math.log(0.5))} for r in stored()]
    grown = {**run(), "memory": (2e9, 1.2e9, math.log(0.6))}
    found = judge(memory, [grown] * 3, tests=12)
    assert [METRICS[c.metric].kind for c in found.changed("regressed")] == ["memory"]


def test_wall_time_splits_into_kernels_and_host() -> None:
    kernels = split_wall(stored(), [run(device=0.05, wall=0.045)])
    host = split_wall(stored(bound="host"), [run(wall=0.05, host=0.05, device=0.001, bound="host")])
    assert kernels is not None and kernels.side == "kernels"
    assert host is not None and host.side == "host"
    assert split_wall([{"wall": (1.0, 1.0, 0.0)}], [run()]) is None


def test_message_shows_both_legs_and_the_side() -> None:
    new = [run(device=0.05, wall=0.045)] * 3
    text = message.explain("a.py::test_a", judge(stored(), new, tests=12), stored(), new)
    first, rest = text.split("\n", 1)
    assert first.startswith("device time against eager is 5.1 % slower than its baseline (allowed 1.0 %")
    assert "eager device time" in rest and "compiled device time" in rest and "speedup" in rest
    assert "where: kernels (of +4.6 % wall time, kernels +4.6 %, host +0.0 %)" in rest
    assert rest.endswith("pytest 'a.py::test_a' --compile-perf=track --compile-update-baselines")


def test_wall_time_that_did_not_regress_is_not_split() -> None:
    """Seen on an H200: the message named the kernels, and the host for all of a slower machine's wall time."""
    new = [run(device=0.05)] * 3
    text = message.explain("a.py::test_a", judge(stored(), new, tests=12), stored(), new)
    assert "where: kernels (wall time did not regress)\n" in text


def test_false_alarms_of_a_whole_suite_stay_at_the_level() -> None:
    rng = random.Random(3)

    def process() -> Figures:
        return run(device=rng.gauss(0, 0.003), wall=rng.gauss(0, 0.012))

    red = 0
    for _ in range(150):
        for _ in range(12):
            base = [process() for _ in range(10)]
            red += judge(base, [process(), process(), process()], tests=12).outcome == "regressed"
    assert red <= 1


def test_imports_neither_torch_nor_pytest() -> None:
    code = "import sys, pytest_torch_compile.speed.{}; print([m for m in ('torch', 'pytest') if m in sys.modules])"
    for module in (
        "deciding.statistics",
        "deciding.verdict",
        "sample",
        "deciding.wording",
        "deciding.stored_runs",
        "summary",
    ):
        done = subprocess.run([sys.executable, "-c", code.format(module)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]", module
