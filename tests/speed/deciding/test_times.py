"""Verdicts on times from made-up runs: what is called changed, and what looks like it and is not."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import pytest

from pytest_torch_compile.speed.deciding import times
from pytest_torch_compile.speed.deciding.constants import FLOORS, MAX_COMPILATIONS
from pytest_torch_compile.speed.deciding.times import Verdict, are_enough, compare, judge
from pytest_torch_compile.speed.sample import Run
from tests.speed.deciding.runs import NOISE, run, slower, stored


def verdict(*new: Run, before: list[Run] | None = None, tests: int = 24) -> Verdict:
    return judge(stored() if before is None else before, new, tests=tests)


def outcome(*new: Run, before: list[Run] | None = None, tests: int = 24) -> tuple[str, bool]:
    """The verdict, and whether it asks for another compilation."""
    its = verdict(*new, before=before, tests=tests)
    return its.outcome, bool(its.undecided)


def test_unchanged_run_passes_at_once() -> None:
    assert outcome(run(0.012, 0.01)) == ("pass", False)


def test_slower_run_asks_and_slower_compilations_are_called() -> None:
    assert outcome(*slower(0.08, 1)) == ("pass", True)
    assert outcome(*slower(0.08, 4)) == ("inconclusive", True), "four have too few ranks against ten"
    called = verdict(*slower(0.08, 5))
    assert (called.outcome, called.undecided) == ("regressed", ())
    assert [change.metric for change in called.changed("regressed")] == ["device", "wall"]


def test_gain_has_to_be_rarer_than_a_loss_to_be_looked_at() -> None:
    assert outcome(run(0.035, 0.0)) == ("pass", True)
    assert outcome(run(-0.035, 0.0)) == ("pass", False)
    assert outcome(*slower(-0.1, 1)) == ("pass", True)
    assert outcome(*slower(-0.1)) == ("improved", False)


def test_first_run_was_chosen_for_being_slow_and_proves_nothing() -> None:
    ordinary = [run(noise, noise, noise) for noise in NOISE[:7]]
    assert outcome(run(0.5, 0.5), *ordinary) == ("pass", False)
    assert outcome(run(0.5, 0.5), ordinary[0]) == ("pass", False), "one ordinary compilation is enough to stop"
    further = slower(0.08, 6)
    first, second = (verdict(run(odd, odd), *further).changes[0] for odd in (0.05, 0.5))
    assert (first.effect, first.compilations, first.p_value) == (second.effect, 6, second.p_value)


def test_others_that_are_faster_where_the_first_was_slower_are_chance() -> None:
    assert outcome(run(0.1, 0.1), *slower(-0.1, 7)) == ("pass", False)


@pytest.mark.parametrize(("count", "needed"), [(5, 7), (10, 4), (15, 3)])
def test_so_many_ranks_are_needed_however_steady_the_times_are(count: int, needed: int) -> None:
    steady = [run() for _ in range(count)]
    new = [run(0.3, 0.3)] * (needed + 1)
    assert outcome(*new[:-1], before=steady) == ("inconclusive", True)
    assert outcome(*new, before=steady) == ("regressed", False)
    assert are_enough(count, needed) and not are_enough(count, needed - 1)


def test_tuning_that_two_of_few_compilations_have_is_not_called() -> None:
    """Seen on an H200: five stored runs with the fast one of two tunings, the slow one 12 % slower."""
    fast = [run(NOISE[n] / 5, NOISE[n] / 5) for n in range(5)]
    slow = run(0.113, 0.1)
    assert outcome(slow, slow, before=fast) == ("inconclusive", True)
    mixed = [slow, slow, *[run()] * 6]
    assert all(outcome(*mixed[:count], before=fast)[0] != "regressed" for count in range(1, 9))
    assert outcome(*mixed, before=fast)[1] is False


@pytest.mark.parametrize("count", [1, 4])
def test_fewer_than_five_stored_runs_call_nothing_and_ask_for_nothing(count: int) -> None:
    its = verdict(*slower(0.5, 1), before=stored(count))
    are = " is" if count == 1 else "s are"
    assert (its.outcome, its.undecided) == ("inconclusive", ())
    assert its.reason == f"only {count} compilation{are} stored, but 5 are needed"
    assert outcome(run(), before=stored(count)) == ("pass", False)


def test_compilations_that_all_came_to_the_same_code_are_as_many() -> None:
    """What is small has no tuning to choose, and the same code each time."""
    same = [replace(each, code="source/tuning") for each in stored(10)]
    assert outcome(*slower(0.2), before=same) == ("regressed", False)


def test_processes_of_a_kept_cache_are_steadier_than_compilations() -> None:
    def process(by: float, kept: bool) -> Run:
        return run(by, by, by, kept_cache=kept, code="one")

    for kept in (True, False):
        before = [process(noise / 10, kept) for noise in NOISE]
        assert outcome(process(0.012, kept), before=before) == ("pass", kept), "only the steady one is odd"


def test_change_under_its_floor_is_not_called_however_sure() -> None:
    for metric, floor in (("device", FLOORS["device"]), ("wall", FLOORS["wall"])):
        below, above = ([run(**{"kept_cache": True, metric: size})] * 8 for size in (floor - 0.001, floor + 0.015))
        before = [run(kept_cache=True)] * 20
        assert outcome(*below, before=before) == ("pass", False)
        assert outcome(*above, before=before) == ("regressed", False)


def test_leg_that_waits_for_its_host_is_compared_with_eagers_wall_time() -> None:
    """A slower machine slows eager too; a leg that waits for its kernels does not get slower with its host."""
    slow_machine = [run(0.0, 0.3, 0.3, eager=0.3, bound="host")] * 8
    assert outcome(*slow_machine, before=stored(bound="host"))[0] != "regressed"
    changed = verdict(*[run(0.0, 0.3, 0.3, bound="host")] * 8, before=stored(bound="host"))
    assert [(c.metric, c.against) for c in changed.changed("regressed")] == [("wall", "wall")]
    on_device = verdict(*[run(0.3, 0.3)] * 8).changed("regressed")
    assert [(c.metric, c.against) for c in on_device] == [("device", "device"), ("wall", "device")]
    unknown = replace(run(), host=None)
    assert verdict(unknown).changes[1].against == "wall", "nothing is known of its host"


def test_a_slow_host_does_not_make_compiled_code_faster() -> None:
    """Seen on an H200 with a busy host: CUDA graphs waited for the host, and eager took three times as long."""
    slow_host = [run(0.0, -0.5, bound="host")] * 8
    assert outcome(slow_host[0]) == outcome(*slow_host) == ("pass", False)
    assert outcome(*slow_host, before=stored(bound="host"))[0] == "improved"
    assert outcome(*[run(0.0, 0.3, bound="host")] * 8)[0] == "regressed", "a slowdown is still seen"


def test_eager_that_got_faster_is_no_slower_compile() -> None:
    assert outcome(*[run(eager=-0.2)] * 8) == ("pass", False)
    assert outcome(*[run(0.02, 0.02, eager=-0.2)] * 8)[0] == "regressed", "the compiled leg got slower too"


def test_time_that_some_runs_lack_is_not_judged() -> None:
    before = [replace(each, start=10.0) for each in stored()]
    slow_start = [replace(run(), start=20.0)] * 8
    assert [c.metric for c in verdict(*slow_start, before=before).changed("regressed")] == ["start"]
    assert verdict(*[run()] * 8, before=before).outcome == "pass", "the new runs measured no start"


def test_stored_runs_without_a_cold_start_do_not_hide_the_others() -> None:
    """``cold_start=True`` was added to a test that had stored runs."""
    without, slow_start = stored(7), [replace(run(), start=40.0)] * 8
    with_start = [replace(each, start=10.0) for each in stored(13)]
    assert [c.metric for c in verdict(*slow_start, before=[*without, *with_start]).changed("regressed")] == ["start"]
    assert verdict(*[replace(run(), start=10.0)] * 8, before=[*without, *with_start]).outcome == "pass"
    first = verdict(*slow_start, before=without)
    assert first.outcome == "inconclusive"
    assert first.reason == "cold starts were not compared, because the baseline has none; record the baseline again"
    few = verdict(*slow_start, before=[*without, *with_start[:2]])
    assert (few.outcome, few.reason) == ("inconclusive", "only 2 compilations are stored, but 5 are needed")


def test_a_slow_host_is_not_a_slow_compiler() -> None:
    before = [replace(each, start=10.0, warm_start=2.0) for each in stored()]
    host_is_slower = [replace(run(0.5, 0.5, 0.5, eager=0.5), start=15.0, warm_start=3.0)] * 8
    assert outcome(host_is_slower[0], before=before) == outcome(*host_is_slower, before=before) == ("pass", False)
    compiler_too = [replace(one, start=30.0) for one in host_is_slower]
    assert [c.metric for c in verdict(*compiler_too, before=before).changed("regressed")] == ["start"]
    faster_start = [replace(run(), start=5.0, warm_start=2.0)] * 8
    assert verdict(faster_start[0], before=before).undecided[0].metric == "start"
    assert [c.metric for c in verdict(*faster_start, before=before).changed("improved")] == ["start"]
    host_is_faster = [replace(run(-0.5, -0.5, -0.5, eager=-0.5), start=20.0, warm_start=2.0)] * 8
    assert [c.metric for c in verdict(*host_is_faster, before=before).changed("regressed")] == ["start"]


def test_starts_with_other_numbers_of_compile_processes_are_not_compared() -> None:
    before = [replace(each, start=10.0, warm_start=2.0, compile_processes=16) for each in stored()]
    alone = [replace(run(), start=30.0, warm_start=2.0, compile_processes=1)] * 8
    found = verdict(*alone, before=before)
    assert (found.outcome, found.undecided) == ("inconclusive", ())
    assert found.reason.startswith(
        "cold starts were not compared: the number of compile processes is 1, but 16 in the baseline"
    )
    slower_kernels = [replace(one, compile_processes=1, start=10.0) for one in slower(0.3)]
    assert outcome(*slower_kernels, before=before)[0] == "regressed", "other times are still compared"
    alike = [replace(one, compile_processes=16) for one in alone]
    assert [c.metric for c in verdict(*alike, before=before).changed("regressed")] == ["start"]
    unknown = [replace(one, compile_processes=0) for one in before]
    assert [c.metric for c in verdict(*alone, before=unknown).changed("regressed")] == ["start"]


def test_wall_time_of_runs_without_device_time_is_compared_with_eagers_own() -> None:
    before = [replace(one, device=None) for one in stored()]
    assert verdict(run(0.0, 0.3), before=before).changes[0].against == "wall"
    assert compare(before, stored(), tests=1).outcome == "pass"


def test_what_eight_compilations_leave_open_is_said() -> None:
    unsteady = [run(4 * noise) for noise in NOISE]
    new = [run(0.1), *[run(0.05 + 4 * noise) for noise in NOISE[1:8]]]
    its = verdict(*new, before=unsteady)
    assert (its.outcome, its.undecided) == ("inconclusive", ())
    assert its.reason == "8 compilations are not enough to distinguish a change in device time from noise"
    assert verdict(*new[:7], before=unsteady).undecided


def test_larger_suites_ask_for_stronger_evidence() -> None:
    new = slower(0.03, 6)
    assert outcome(*new, tests=1)[0] == "regressed"
    assert outcome(*new, tests=100_000) == ("inconclusive", True)


def test_nothing_stored_is_no_baseline() -> None:
    assert outcome(run(), before=[]) == ("no-baseline", False)


def test_two_revisions_are_compared_without_a_first_run() -> None:
    base = stored(8)
    assert (compare(base, base, tests=24).outcome, compare(base, base, tests=24).undecided) == ("pass", ())
    assert compare(base, slower(0.2), tests=24).outcome == "regressed"
    assert compare(base, slower(-0.2), tests=24).outcome == "improved"
    early = compare(base[:2], slower(0.2, 2), tests=24)
    assert (early.outcome, early.undecided) == ("inconclusive", early.changes)
    assert early.reason == "2 compilations of each revision are not enough to distinguish this change from noise"
    assert compare(base, [run(eager=-0.2)] * 8, tests=24).outcome == "pass"


def test_false_alarms_of_whole_suites_stay_at_the_level() -> None:
    """Sessions as the gate runs them: compilations are added while it asks for them."""
    rng, suites, tests = random.Random(3), 150, 3

    def compilation() -> Run:
        return run(rng.gauss(0, 0.015), rng.gauss(0, 0.025), eager=rng.gauss(0, 0.002))

    red = 0
    for _ in range(suites):
        suite_red = False
        for _ in range(tests):
            before, new = [compilation() for _ in range(rng.choice((5, 10, 15)))], [compilation()]
            while judge(before, new, tests=tests).undecided:
                new.append(compilation())
            assert len(new) <= MAX_COMPILATIONS
            suite_red |= judge(before, new, tests=tests).outcome == "regressed"
        red += suite_red
    assert red <= 0.01 * suites


@pytest.mark.usefixtures("new_interpreters")
def test_imports_neither_torch_nor_pytest() -> None:
    names = ("deciding.confirmation", "deciding.wording", "deciding.stored_runs", "summary", "gpus")
    imports = "; ".join(f"import pytest_torch_compile.speed.{name}" for name in names)
    code = f"import sys; {imports}; print([m for m in ('torch', 'pytest') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert times.METRICS.keys() == FLOORS.keys()
