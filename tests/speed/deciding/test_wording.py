"""What a decision says to a person, and where it says a change comes from."""

from __future__ import annotations

from dataclasses import replace

from pytest_torch_compile.speed.deciding import exact, wording
from pytest_torch_compile.speed.deciding.confirmation import Decision
from pytest_torch_compile.speed.deciding.origin import side_of, split_wall
from pytest_torch_compile.speed.deciding.stored_runs import StoredTest
from pytest_torch_compile.speed.deciding.times import judge
from pytest_torch_compile.speed.sample import Exact, Paired, Run, SpeedSample
from tests.speed.deciding.runs import run, stored


def decision(new: list[Run], stored_runs: list[Run], **counts: int) -> Decision:
    samples = [
        SpeedSample(
            **{name: Paired(*getattr(one, name)) for name in ("wall", "host", "device")}, breaks=("a.py:3: print",)
        )
        for one in new
    ]
    known = {"kernels": [46], "memory": [81_900_000], "graph_breaks": [0]}
    return Decision(
        samples,
        judge(stored_runs, new, tests=12),
        tuple(exact.differences(known, [Exact(**counts)])),
    )


def test_message_shows_counts_then_times_then_both_legs_and_the_side() -> None:
    found = decision([run(0.1, 0.09)] * 8, stored(), kernels=56, memory=132_900_000)
    text = wording.explain("a.py::test_a", found, StoredTest(stored()))
    lines = text.splitlines()
    assert lines[:2] == ["kernels per call 46 -> 56", "peak memory 81.9 MB -> 132.9 MB"]
    assert lines[2].startswith(
        "device time relative to eager's device time is 10.5% longer than in the baseline (95% confidence interval +"
    )
    assert lines[2].endswith("% over 7 more compilations)")
    assert lines[3].startswith("wall time relative to eager's device time is 9.4% longer")
    assert "eager device time" in text and "compiled device time" in text and "speedup" in text
    assert "where: kernels (wall time +9.4%: kernels +" in text
    assert text.endswith("pytest 'a.py::test_a' --compile-perf=track --compile-update-baselines")
    assert "a.py:3" not in text


def test_new_break_is_named_with_its_place() -> None:
    found = decision([run()], [], graph_breaks=1)
    lines = wording.explain("t", found, StoredTest()).splitlines()
    assert lines[:2] == ["graph breaks 0 -> 1", "    a.py:3: print"]
    assert "baseline  " not in "\n".join(lines), "no table where no time is stored"


def test_summary_is_for_a_table() -> None:
    found = decision([run(0.1, 0.09)] * 8, stored(), kernels=56)
    assert wording.summary(found) == "kernels per call 46 -> 56, device time +10.5%, wall time +9.4%"
    varying = replace(decision([run()], stored()), varying=found.differences)
    assert wording.summary(varying) == "kernels per call 46 -> 56 in one compilation only"
    assert wording.summary(decision([run()], [])) == "the baseline for this environment has no runs of this test"
    (device, _) = found.times.changes
    assert wording.interval(device).startswith("device time +10.5% (+")


def test_wall_time_splits_into_kernels_and_host() -> None:
    for new, bound, side in (
        ([run(0.1, 0.09)] * 8, "device", "kernels"),
        ([run(0.0, 0.3, 0.3, bound="host")] * 8, "host", "host"),
        ([run(0.1, 0.3, 0.5)] * 8, "device", "kernels and host"),
    ):
        before = stored(bound=bound)
        verdict = judge(before, new, tests=12)
        assert side_of(verdict, split_wall(verdict, before, new)) == side
    without = [replace(one, device=None) for one in stored()]
    verdict = judge(without, [run(0.0, 0.3)], tests=12)
    assert split_wall(verdict, without, [run(0.0, 0.3)]) is None


def test_wall_time_that_did_not_regress_is_not_split() -> None:
    """Seen on an H200: the message named the kernels, and the host for all of a slower machine's wall time."""
    found = decision([run(0.1)] * 8, stored())
    assert wording.where(found, stored()) == "where: kernels (device time regressed, wall time did not)"
