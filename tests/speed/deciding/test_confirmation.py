"""From the first compilation to a decision: which further ones are asked, and what all of them say."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from pytest_torch_compile.speed.deciding.confirmation import Decision, NoFigures, decide
from pytest_torch_compile.speed.deciding.stored_runs import StoredTest
from pytest_torch_compile.speed.deciding.wording import explain, summary
from pytest_torch_compile.speed.sample import Exact, Paired, Run, SpeedSample
from tests.speed.deciding.runs import NOISE, run, stored

COUNTS = {"kernels": [9], "graphs": [1], "guards": [30], "syncs": [0]}


def sample(slower: float = 0.0, problems: Sequence[str] = (), **counts: int) -> SpeedSample:
    made: Run = run(slower, slower)
    pairs = {name: Paired(*getattr(made, name)) for name in ("wall", "host", "device")}
    usual = {name: values[0] for name, values in COUNTS.items()}
    return SpeedSample(**pairs, exact=Exact(**usual | counts), problems=tuple(problems))


def decided(*samples: SpeedSample, at_once: int = 1, before: Any = None, **options: Any) -> tuple[Decision, list[int]]:
    """The decision, and how many further compilations each question allowed. ``at_once`` run at a time."""
    left, asked = list(samples[1:]), []

    def another(at_most: int) -> Generator[SpeedSample, None, None]:
        asked.append(at_most)
        if not left:
            raise NoFigures("the fresh process failed")
        for _ in range(min(at_once, at_most, len(left))):
            yield left.pop(0)

    baseline = StoredTest(stored(10) if before is None else before, COUNTS)
    return decide(baseline, samples[0], another, tests=24, **options), asked


def test_ordinary_compilation_asks_for_no_other() -> None:
    decision, asked = decided(sample(0.01))
    assert (decision.times.outcome, asked, decision.changed) == ("pass", [], False)


def test_slower_compilation_takes_as_many_as_decide_it() -> None:
    decision, asked = decided(*[sample(0.1)] * 8)
    assert (decision.times.outcome, asked, decision.changed) == ("regressed", [7, 6, 5, 4], True)


def test_compilations_that_run_together_are_one_question() -> None:
    decision, asked = decided(*[sample(0.1)] * 8, at_once=4)
    assert (decision.times.outcome, asked, len(decision.samples)) == ("regressed", [7], 5)


def test_compilations_that_are_still_running_are_ended_once_it_is_decided() -> None:
    ended = []

    def another(at_most: int) -> Generator[SpeedSample, None, None]:
        try:
            for _ in range(at_most):
                yield sample(0.1)
        finally:
            ended.append(at_most)

    decision = decide(StoredTest(stored(10), COUNTS), sample(0.1), another, tests=24)
    assert (decision.times.outcome, len(decision.samples), ended) == ("regressed", 5, [7])


def test_eight_compilations_are_the_most() -> None:
    unsteady = [run(4 * noise, 4 * noise) for noise in NOISE]
    new = [sample(0.1), *[sample(0.05 + 4 * noise) for noise in NOISE[1:]]]
    decision, asked = decided(*new, before=unsteady)
    assert (decision.times.outcome, len(decision.samples), asked[-1]) == ("inconclusive", 8, 1)


@pytest.mark.parametrize("counts", [{"graphs": 2}, {"guards": 95}, {"syncs": 1}, {"graphs": 0}], ids=str)
def test_what_no_tuning_chooses_is_certain_at_once(counts: dict[str, int]) -> None:
    decision, asked = decided(sample(**counts), before=[])
    assert (len(decision.worse), decision.varying, asked, decision.changed) == (1, (), [], True)


def test_tuned_count_takes_one_more_compilation() -> None:
    decision, asked = decided(sample(kernels=10), sample(kernels=10))
    assert ([str(one) for one in decision.worse], decision.varying, asked) == (["kernels per call 9 -> 10"], (), [1])
    decision, asked = decided(sample(kernels=10), sample(kernels=9))
    assert (decision.worse, [str(one) for one in decision.varying]) == ([], ["kernels per call 9 -> 10"])
    assert (asked, decision.changed) == ([1], False)


@pytest.mark.parametrize(
    ("counts", "further"),
    [({"guards": 95}, []), ({"kernels": 10}, [1]), ({"guards": 95, "kernels": 10}, [1])],
    ids=["certain at once", "tuned", "both"],
)
def test_worse_count_that_is_certain_ends_the_confirmation_of_times(counts: dict[str, int], further: list[int]) -> None:
    decision, asked = decided(*[sample(0.1, **counts)] * 8, gates=True)
    assert ({one.quantity.name for one in decision.worse}, asked) == (set(counts), further)
    assert (decision.times.outcome == "regressed", len(decision.samples)) == (False, 1 + len(further))
    assert "run with --compile-perf=track to confirm this" in explain("test", decision, StoredTest(stored(10), COUNTS))
    decision, asked = decided(*[sample(0.1, **counts)] * 8)
    assert (decision.times.outcome, asked) == ("regressed", [7, 6, 5, 4])


def test_count_that_a_second_compilation_does_not_show_leaves_the_times_to_be_confirmed() -> None:
    decision, asked = decided(sample(0.1, kernels=10), *[sample(0.1)] * 7, gates=True)
    assert (decision.worse, decision.times.outcome, asked) == ([], "regressed", [1, 6, 5, 4])


def test_better_count_and_slower_times_are_confirmed() -> None:
    decision, asked = decided(*[sample(0.1, kernels=8)] * 8, gates=True)
    assert (decision.times.outcome, asked) == ("regressed", [7, 6, 5, 4])


def test_gate_does_not_confirm_what_can_only_be_an_improvement() -> None:
    decision, asked = decided(*[sample(-0.2, kernels=8)] * 8, gates=True)
    assert (decision.times.outcome, decision.worse, asked) == ("pass", [], [])
    assert summary(decision) == "kernels per call 9 -> 8 in one compilation only"
    decision, asked = decided(*[sample(-0.2)] * 8, gates=True)
    assert summary(decision) == "device time and wall time may have improved: confirm with --compile-perf=track"
    decision, asked = decided(*[sample(-0.2, kernels=8)] * 8)
    assert (decision.times.outcome, decision.changed, asked) == ("improved", True, [7, 6, 5, 4])


def test_a_possible_improvement_after_a_second_compilation_is_not_inconclusive_for_the_gate() -> None:
    """Seen on an H200: the second compilation of an autotuned training step was needed for a count."""
    seen = [sample(-0.2, kernels=10), *[sample(-0.2)] * 7]
    decision, asked = decided(*seen, gates=True)
    assert (decision.times.outcome, decision.worse, asked) == ("pass", [], [1])
    assert decision.times.reason == "device time and wall time may have improved: confirm with --compile-perf=track"
    decision, asked = decided(*seen)
    assert (decision.times.outcome, asked[0]) == ("improved", 7)
    few = decided(*seen, before=stored(3), gates=True)[0]
    assert (few.times.outcome, few.times.reason) == ("inconclusive", "only 3 compilations are stored, but 5 are needed")


def test_an_improved_count_is_confirmed_while_few_runs_are_stored() -> None:
    """Otherwise, the baseline would keep the earlier count beside the new one, and allow it."""
    decision, asked = decided(*[sample(kernels=8)] * 2, before=stored(2), recording=True)
    assert ([str(one) for one in decision.differences], decision.changed, asked) == (
        ["kernels per call 9 -> 8"], True, [1]
    )  # fmt: skip
    decision, asked = decided(sample(kernels=8), sample(kernels=9), before=stored(2), recording=True)
    assert (decision.changed, asked) == (False, [1])
    decision, asked = decided(sample(0.3, kernels=10), before=stored(2), recording=True)
    assert (decision.changed, asked) == (False, []), "more kernels and other times are recorded beside the earlier ones"


def test_a_test_without_any_baseline_says_so_on_a_cpu_too() -> None:
    on_cpu = sample(problems=["times on CPU are shown, but neither stored nor compared with a baseline"])
    unknown = StoredTest(missing="no baseline exists for cpu_torch-2.15 in baselnes")
    decision = decide(unknown, on_cpu, None, tests=24)
    assert (decision.times.outcome, decision.times.reason) == ("no-baseline", unknown.missing)
    assert decide(StoredTest(counts=COUNTS), on_cpu, None, tests=24).times.outcome == "inconclusive"
    on_gpu = decide(StoredTest(counts=COUNTS, missing="no runs"), sample(), None, tests=24)
    assert (on_gpu.times.outcome, on_gpu.times.reason) == ("no-baseline", "no runs")


def test_a_baseline_without_counts_does_not_pass() -> None:
    decision = decide(StoredTest(stored(10)), sample(graph_breaks=7), None, tests=24)
    assert decision.times.outcome == "inconclusive"
    assert decision.times.reason == "counts were not compared, because structure.json has no counts of this test"
    slow = decide(StoredTest(stored(10)), sample(0.3), lambda number: (sample(0.3) for _ in range(number)), tests=24)
    assert slow.times.outcome == "regressed"


def test_a_count_is_not_said_to_be_in_one_compilation_only_if_the_second_failed() -> None:
    decision, _ = decided(sample(kernels=96), gates=True)
    assert (decision.worse, decision.unconfirmed) == ([], "the fresh process failed")
    assert summary(decision) == "kernels per call 9 -> 96 not confirmed, the fresh process failed"


def test_gate_confirms_a_loss_beside_an_improvement() -> None:
    decision, asked = decided(*[sample(-0.2, kernels=10)] * 8, gates=True)
    assert ([str(one) for one in decision.worse], asked) == (["kernels per call 9 -> 10"], [1])
    assert "times also seem" not in explain("test", decision, StoredTest(stored(10), COUNTS))


def test_one_stored_run_is_enough_for_a_count() -> None:
    decision, asked = decided(sample(kernels=10), sample(kernels=10), before=stored(1))
    assert (len(decision.worse), decision.times.outcome, asked) == (1, "pass", [1])


def test_count_is_allowed() -> None:
    decision, asked = decided(sample(kernels=10, guards=95), allow_more={"kernels": 1, "guards": None})
    assert (decision.differences, decision.varying, asked) == ((), (), [])


def test_fewer_kernels_are_a_change_and_no_loss() -> None:
    decision, _ = decided(sample(kernels=8), sample(kernels=8))
    assert (decision.worse, decision.changed) == ([], True)


def test_without_figures_times_are_open_and_what_is_certain_stays() -> None:
    decision, asked = decided(sample(0.1, guards=95, kernels=10))
    assert (decision.times.outcome, asked) == ("inconclusive", [7])
    assert decision.times.reason == "a change was measured, but not confirmed: the fresh process failed"
    assert [one.quantity.name for one in decision.worse] == ["guards"]
    assert [one.quantity.name for one in decision.varying] == ["kernels"]


def test_disturbed_compilation_ends_it_wherever_it_comes() -> None:
    decision, asked = decided(sample(0.1, ["throttled"]))
    assert (decision.times.reason, asked) == ("throttled", [])
    decision, asked = decided(sample(0.1), sample(0.1, ["throttled"]), sample(0.1))
    assert (decision.times.outcome, decision.times.reason, asked) == ("inconclusive", "throttled", [7])
    decision, asked = decided(sample(0.1, ["throttled"], kernels=10), *[sample(0.1, kernels=10)] * 7)
    assert (decision.times.reason, asked, len(decision.worse)) == ("throttled", [1], 1), "counts are as exact as ever"


def test_what_forbids_a_verdict_beforehand_asks_for_nothing() -> None:
    asked: list[int] = []
    other_device = StoredTest(stored(10), COUNTS, problems=["no run is of this device"])
    decision = decide(other_device, sample(0.1), lambda number: asked.append(number), tests=24)
    assert (decision.times.outcome, decision.times.reason, asked) == ("inconclusive", "no run is of this device", [])


def test_where_nothing_may_be_confirmed_nothing_is() -> None:
    decision = decide(StoredTest(stored(10), COUNTS), sample(0.1, kernels=10), None, tests=24)
    assert (decision.worse, len(decision.varying), len(decision.times.undecided)) == ([], 1, 2)
