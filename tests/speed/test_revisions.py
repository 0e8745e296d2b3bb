"""Two revisions compared: the checkouts are real, the figures made up."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_torch_compile.child import Child, Ended
from pytest_torch_compile.speed import fresh_process as confirm
from pytest_torch_compile.speed import revisions as compare
from pytest_torch_compile.speed.one_revision import Revision
from pytest_torch_compile.speed.sample import Exact, Paired, SpeedSample


def sample(slower: float, *problems: str, **counts: int) -> SpeedSample:
    def pair(seconds: float) -> Paired:
        return Paired(2 * seconds, seconds * math.exp(slower), slower - math.log(2))

    return SpeedSample(wall=pair(1e-3), host=pair(3e-4), device=pair(9e-4), problems=problems, exact=Exact(**counts))


def measured(samples: Sequence[SpeedSample], **more: Any) -> Revision:
    return Revision("", {"t": list(samples)}, **more)


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits: the first says fast, the second slow."""
    git(tmp_path, "init", "-q")
    (tmp_path / "src").mkdir()
    for text in ("0.0", "0.1"):
        (tmp_path / "src" / "slowness").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Of each run: the tests that were asked for, its compile cache, its folder, and where its sources are looked for.
asked: list[Sequence[str] | None] = []
caches: list[str] = []
folders: list[Path] = []
sources: list[str] = []


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for pytest: leaves the samples that the checkout's sources ask for."""
    seen: list[str] = []
    for one in (asked, caches, folders, sources):
        one.clear()

    def run(
        child: Child, environment: Mapping[str, str], seconds: float, stop: None, progress: Callable[[int], None]
    ) -> Ended:
        folders.append(child.folder)
        sources.append(environment["PYTHONPATH"])
        slowness = float(Path(sources[-1].split(":")[0], "slowness").read_text())
        seen.append("base" if slowness == 0 else "here")
        noise = 0.001 * (len(seen) % 5 - 2)
        monkeypatch.setenv(confirm.SAMPLES, environment[confirm.SAMPLES])
        asked.append(child.job.tests)
        caches.extend(argument for argument in child.arguments if argument.startswith("--compile-cache="))
        made = {"test_a": sample(slowness + noise, kernels=9), "test_same": sample(noise, kernels=9)}
        if slowness:
            made |= {"test_new": sample(noise), "test_more": sample(slowness + noise, kernels=10, graphs=2)}
        else:
            made |= {"test_more": sample(noise, kernels=9, graphs=2)}
        for name, its in made.items():
            if child.job.tests is None or f"test_a.py::{name}" in child.job.tests:
                confirm.leave_sample(f"test_a.py::{name}", its)
        progress(0)
        return Ended(0, "1 passed")

    monkeypatch.setattr(Child, "run", run)
    return seen


def test_slower_checkout_is_a_regression(repository: Path, runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["--against", "HEAD~1"]) == 1
    out = capsys.readouterr().out
    assert re.search(r"regressed +test_a.py::test_a +device time \+10.\d% \(\+[\d.]+ to \+[\d.]+%\), wall time", out)
    assert re.search(r"pass +test_a.py::test_same +device time [+-]0", out)
    assert "compiled device time" in out and "where: kernels" in out
    assert "no-baseline  test_a.py::test_new  new in this checkout" in out
    counted, timed = (
        out.index("counts:"),
        out.index("times relative to eager, with both revisions compiled from scratch:"),
    )
    assert counted < out.index("test_a.py::test_more  worse   kernels per call 9 -> 10") < timed
    assert "graphs 2" not in out


def test_difference_of_a_count_alone_is_red_and_equal_revisions_are_green(
    repository: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before, more, less = (measured([sample(0.0, kernels=number)] * 2) for number in (9, 10, 8))
    (found,) = compare.judged(before, more)
    assert (found.outcome, found.decision.times.outcome) == ("regressed", "pass")
    (fewer,) = compare.judged(before, less)
    assert fewer.outcome == "pass"
    git(repository, "checkout", "-q", "HEAD~1")
    assert compare.main(["--against", "HEAD"]) == 0
    assert "counts: the same on both revisions" in capsys.readouterr().out


def test_unchanged_tests_and_tests_with_a_worse_count_take_no_part_in_further_rounds(
    repository: Path, runs: list[str]
) -> None:
    found = compare.compare_with("HEAD~1", ["."], say=lambda line: None)
    assert runs[:6] == ["here", "base", "base", "here", "here", "base"], "the sides alternate"
    assert asked[:4] == [None] * 4, "each test is compiled twice"
    assert asked[4:] and all(tests == ["test_a.py::test_a"] for tests in asked[4:])
    assert len(runs) < 16, "and what is decided ends it"
    assert {one.test: len(one.base) for one in found.compared} == {
        "test_a.py::test_a": len(runs) // 2, "test_a.py::test_more": 2, "test_a.py::test_same": 2,
    }  # fmt: skip


def test_every_run_compiles_afresh(repository: Path, runs: list[str]) -> None:
    compare.compare_with("HEAD~1", ["."], rounds=3, say=lambda line: None)
    assert len(runs) == len(set(caches)) == 6


def test_change_that_is_odd_for_one_test_may_be_chance_among_many() -> None:
    base, here = ([sample(by + 0.004 * (n % 3 - 1)) for n in range(6)] for by in (0.0, 0.03))
    alone, many = (
        compare.judged(*(Revision("", dict.fromkeys(map(str, names), side)) for side in (base, here)))
        for names in ("a", range(2000))
    )
    assert {each.outcome for each in alone} == {"regressed"}
    assert {each.outcome for each in many} == {"inconclusive"}


def test_checkout_is_removed(repository: Path, runs: list[str]) -> None:
    compare.compare_with("HEAD~1", ["."], rounds=1, say=lambda line: None)
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1


def test_unknown_revision_is_one_line(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["--against", "nowhere"]) == 2
    assert capsys.readouterr().err == "error: --against nowhere: git finds no such revision in this repository\n"


def test_both_revisions_run_in_the_current_folder(
    repository: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "python" / "src").mkdir(parents=True)
    for text in ("0.0", "0.1"):
        (repository / "python" / "src" / "slowness").write_text(text)
        git(repository, "add", ".")
        git(repository, "commit", "-qm", text)
    monkeypatch.chdir(repository / "python")
    compare.compare_with("HEAD~1", [], rounds=1, say=lambda line: None)
    assert runs == ["here", "base"]
    assert all(Path(folder).name == "python" for folder in folders)
    here, base = (paths.split(":") for paths in sources)
    assert here[:4] == [str(repository / place) for place in ("python/src", "python", "src", "")]
    assert [Path(path).name for path in base[:4]] == ["src", "python", "src", "base"]
    with pytest.raises(compare.CompareError, match="revision HEAD~2 does not contain the current folder, python"):
        compare.compare_with("HEAD~2", [], rounds=1, say=lambda line: None)


def test_no_rounds_are_refused() -> None:
    with pytest.raises(compare.CompareError, match="--rounds is 0: it must be at least 1"):
        compare.compare_with("HEAD~1", [], rounds=0)


def test_no_speed_test_is_an_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Child, "run", lambda *arguments, **more: Ended(5, "no tests ran"))
    assert compare.main(["--against", "HEAD~1"]) == 2
    printed = capsys.readouterr()
    assert "no test that uses compile_benchmark returned measurements in this checkout: no tests ran" in printed.err
    assert "round 2" not in printed.out


@pytest.mark.parametrize("throttled", ["base", "here"])
def test_problem_on_either_side_is_inconclusive(throttled: str) -> None:
    sides = {"base": [sample(0.0)] * 4, "here": [sample(0.5)] * 4}
    sides[throttled] = [*sides[throttled], sample(0.5, "the device was throttled: hardware slowdown")]
    (found,) = compare.judged(measured(sides["base"]), measured(sides["here"]))
    assert (found.outcome, found.decision.times.reason) == (
        "inconclusive", "the device was throttled: hardware slowdown"
    )  # fmt: skip


def test_increase_that_the_test_of_this_checkout_allows_is_not_a_regression() -> None:
    base, here = [sample(0.0, kernels=9, graphs=1)] * 2, [sample(0.0, kernels=10, graphs=2)] * 2
    for allowed, worse in (
        ({"kernels": 1, "graphs": None}, []),
        ({"kernels": 0.2, "graphs": 1}, []),
        ({"kernels": 1}, ["graphs"]),
        ({}, ["kernels", "graphs"]),
    ):
        (found,) = compare.judged(measured(base), measured(here, allowed={"t": allowed}))
        assert [one.quantity.name for one in found.decision.worse] == worse
    (found,) = compare.judged(measured(base, allowed={"t": {"kernels": 1, "graphs": 1}}), measured(here))
    assert found.outcome == "regressed", "the base revision's limits do not count"


@pytest.mark.parametrize(("allowed", "outcome"), [({}, "regressed"), ({"kernels": 1}, "pass")])
def test_planned_increase_can_be_allowed(allowed: dict[str, int], outcome: str) -> None:
    def planned(kernels: int, **more: Any) -> Revision:
        entry = {"counts": {"kernels": kernels}, "launches": [], "graph_breaks": []}
        return Revision("", plans={"t": {"entry": entry, "places": {}}}, **more)

    (found,) = compare.compared_plans(planned(9), planned(10, allowed={"t": allowed}))
    assert found.outcome == outcome


def test_checkout_that_was_not_created_leaves_its_error(repository: Path) -> None:
    with (
        pytest.raises(compare.CompareError, match="fatal: invalid reference: nowhere"),
        compare.checkout(repository, "nowhere"),
    ):
        pass
