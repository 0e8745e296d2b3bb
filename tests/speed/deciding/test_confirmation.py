"""From the first process to a verdict: which further ones are asked, and which of them count. Made-up figures."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pytest_torch_compile.speed.deciding.comparison import SpeedComparison
from pytest_torch_compile.speed.deciding.confirmation import MAX_UNCOUNTED, OTHER_CODE, Confirmation, NoFigures, confirm
from pytest_torch_compile.speed.sample import Figures

NOISE = (0.0, 0.002, -0.001, 0.001, -0.002, 0.0, 0.001)
SLOWER = 0.03


@dataclass(frozen=True)
class Measured:
    """A process whose compiled leg waits for its kernels, which are slower by this log ratio."""

    slower: float
    code: str = "source/a"
    problems: Sequence[str] = ()

    def figures(self) -> Figures:
        pair = 1e-3, 5e-4 * math.exp(self.slower), math.log(0.5) + self.slower
        return {"device": pair, "wall": pair, "host": (1e-4, 1e-4, 0.0)}


def settled(*processes: Measured, stored: str = "aaaabbb", source: str = "source") -> tuple[Confirmation, int]:
    """What the first process comes to with the others to confirm it, and how many of them were asked."""
    runs = [Measured(noise).figures() for noise in NOISE]
    against = partial(SpeedComparison.of, runs, [f"{source}/{its}" for its in stored], tests=12, priors={})
    left = list(processes[1:])

    def another(comparison: SpeedComparison) -> Measured:
        if not left:
            raise NoFigures("the fresh process failed")
        return left.pop(0)

    return confirm(against, processes[0], another), len(processes) - 1 - len(left)


def outcome(*processes: Measured, stored: str = "aaaabbb") -> str:
    return settled(*processes, stored=stored)[0].verdict().outcome


def test_ordinary_process_asks_for_no_other() -> None:
    found, asked = settled(Measured(0.001), Measured(SLOWER))
    assert (found.verdict().outcome, asked) == ("pass", 0)


def test_regression_takes_three_processes() -> None:
    found, asked = settled(*[Measured(SLOWER)] * 5)
    assert (found.verdict().outcome, asked, found.uncounted) == ("regressed", 2, 0)


def test_process_tuned_as_none_that_is_stored_is_passed_over() -> None:
    stray = Measured(SLOWER, "source/new")
    found, asked = settled(Measured(SLOWER), stray, Measured(SLOWER, "source/b"), Measured(SLOWER))
    assert (found.verdict().outcome, asked, len(found.counted)) == ("regressed", 3, 3)
    assert "1 of 4 processes do not count: no stored run has their tuning" in found.verdict().reason
    assert outcome(Measured(SLOWER), stray, Measured(0.0), Measured(0.0)) == "pass"


def test_too_many_of_them_leave_the_verdict_open() -> None:
    strays = [Measured(SLOWER, f"source/new{number}") for number in range(MAX_UNCOUNTED + 1)]
    found, asked = settled(Measured(SLOWER), *strays, *[Measured(SLOWER)] * 5)
    assert (found.verdict().outcome, asked) == ("inconclusive", MAX_UNCOUNTED + 1)
    assert found.verdict().reason == OTHER_CODE


def test_process_of_another_source_ends_it_at_once() -> None:
    found, asked = settled(Measured(SLOWER), Measured(SLOWER, "elsewhere/a"), *[Measured(SLOWER)] * 5)
    assert (found.verdict().outcome, asked) == ("inconclusive", 1)
    assert found.problems == [OTHER_CODE]


def test_odd_first_process_that_tuned_anew_gives_its_place_to_the_next() -> None:
    first = Measured(SLOWER, "source/new")
    found, asked = settled(first, *[Measured(SLOWER)] * 5)
    assert (found.verdict().outcome, asked, first in found.counted) == ("regressed", 3, False)
    found, asked = settled(first, Measured(SLOWER), first, *[Measured(SLOWER)] * 5)
    assert (found.verdict().outcome, asked, found.uncounted) == ("regressed", 4, 2)
    tuned_badly, asked = settled(first, Measured(0.0))
    assert (tuned_badly.verdict().outcome, asked) == ("pass", 1)
    assert tuned_badly.verdict().reason == "1 of 2 processes do not count: no stored run has their tuning"


def test_ordinary_first_process_that_tuned_anew_asks_for_nothing() -> None:
    found, asked = settled(Measured(0.001, "source/new"), Measured(SLOWER))
    assert (found.verdict().outcome, asked) == ("pass", 0)


def test_two_new_tunings_in_a_row_are_other_compilations() -> None:
    new = [Measured(SLOWER, f"source/new{number}") for number in range(4)]
    found, asked = settled(*new)
    assert (found.verdict().outcome, asked, found.comparison.other) == ("inconclusive", 1, True)
    much = [Measured(0.3, f"source/new{number}") for number in range(5)]
    assert outcome(*much, stored="aabbccc") == "regressed", "ten percent beyond all of three compilations"


def test_new_tunings_among_many_confirm_each_other() -> None:
    new = [Measured(SLOWER, f"source/new{number}") for number in range(3)]
    found, asked = settled(*new, stored="abcdefg")
    assert (found.verdict().outcome, asked, found.uncounted) == ("regressed", 2, 0)


def test_cache_with_a_tuning_of_its_own_is_another_compilation() -> None:
    """As on a new machine, whose cache was filled from nothing, when five other caches are stored."""
    somewhat, much = Measured(SLOWER, "source/new"), Measured(0.3, "source/new")
    anew = [Measured(0.3, f"source/anew{number}") for number in range(2)]
    found, asked = settled(*[somewhat] * 3, *anew, stored="abcdefg")
    assert (found.verdict().outcome, asked, found.comparison.other) == ("inconclusive", 2, True)
    assert "do not count" not in found.verdict().reason
    assert outcome(*[much] * 3, *anew, stored="abcdefg") == "regressed"
    assert outcome(*[much] * 3, Measured(0.0, "source/anew"), stored="abcdefg") == "pass"


def test_tuning_that_only_further_processes_have_confirms_once() -> None:
    found, asked = settled(Measured(SLOWER, "source/a"), *[Measured(SLOWER, "source/new")] * 9, stored="abcdefg")
    assert (found.problems, asked) == ([OTHER_CODE], 1 + MAX_UNCOUNTED + 1)


def test_tuning_that_comes_twice_by_chance_is_passed_over() -> None:
    new = Measured(SLOWER, "source/new")
    found, asked = settled(new, new, Measured(SLOWER, "source/newer"), Measured(SLOWER, "source/a"), stored="abcdefg")
    assert (found.verdict().outcome, asked, found.uncounted) == ("regressed", 3, 1)


def test_no_figures_and_problems_leave_it_open() -> None:
    found, _ = settled(Measured(SLOWER))
    assert found.problems == ["a change was seen, but the fresh process failed"]
    assert found.verdict().outcome == "inconclusive"
    throttled, asked = settled(Measured(SLOWER), Measured(SLOWER, problems=("throttled",)), Measured(SLOWER))
    assert (throttled.verdict().reason, asked) == ("throttled", 1)
    assert settled(Measured(SLOWER, problems=("throttled",)), Measured(SLOWER))[1] == 0


def test_what_forbids_a_verdict_beforehand_asks_for_nothing() -> None:
    against = partial(
        SpeedComparison.of, [Measured(noise).figures() for noise in NOISE], ["source/a"] * 7, tests=12, priors={}
    )

    def another(comparison: SpeedComparison) -> Measured:
        raise AssertionError("a further process was asked")

    assert confirm(against, Measured(SLOWER), another, ["no run is of this device"]).verdict().outcome == "inconclusive"


def test_imports_neither_torch_nor_pytest() -> None:
    code = "import sys, pytest_torch_compile.speed.deciding.confirmation; print([m for m in ('torch', 'pytest') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
