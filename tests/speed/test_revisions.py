"""Two revisions compared: the checkouts are real, the figures made up."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_torch_compile.child import Child, Ended
from pytest_torch_compile.speed import fresh_process as confirm
from pytest_torch_compile.speed import revisions as compare
from pytest_torch_compile.speed.sample import Paired, SpeedSample


def sample(slower: float, *problems: str) -> SpeedSample:
    def pair(seconds: float) -> Paired:
        return Paired(2 * seconds, seconds * math.exp(slower), slower - math.log(2))

    return SpeedSample(wall=pair(1e-3), host=pair(3e-4), device=pair(9e-4), problems=problems)


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits: the first says fast, the second slow."""
    git(tmp_path, "init", "-q")
    (tmp_path / "src").mkdir()
    for text in ("0.0", "0.05"):
        (tmp_path / "src" / "slowness").write_text(text)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands in for pytest: leaves the sample that the checkout's sources ask for."""
    seen: list[str] = []

    def run(child: Child, environment: Mapping[str, str], seconds: float) -> Ended:
        sources = Path(environment["PYTHONPATH"].split(":")[0])
        slowness = float((sources / "slowness").read_text())
        seen.append("base" if slowness == 0 else "here")
        noise = 0.001 * (len(seen) % 5 - 2)
        monkeypatch.setenv(confirm.SAMPLES, environment[confirm.SAMPLES])
        confirm.leave_sample("test_a.py::test_a", sample(slowness + noise))
        if slowness:
            confirm.leave_sample("test_a.py::test_new", sample(noise))
        return Ended(0, "1 passed")

    monkeypatch.setattr(Child, "run", run)
    return seen


def test_slower_checkout_is_a_regression(repository: Path, runs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["HEAD~1"]) == 1
    out = capsys.readouterr().out
    assert "regressed    test_a.py::test_a  device time +5." in out
    assert "compiled device time" in out and "where: kernels" in out
    assert "no-baseline  test_a.py::test_new  the base revision has no such test" in out


def test_processes_that_tuned_otherwise_do_not_count() -> None:
    base = [replace(sample(0.001 * n), code="source/a") for n in range(5)]
    here = [*[replace(sample(0.1), code="source/b")] * 2, *[replace(sample(0.0), code="source/a")] * 3]
    (found,) = compare.judged({"test_a": base}, {"test_a": here})
    assert found.verdict.outcome == "pass"
    assert "2 of 5 processes ran other compiled code and do not count" in found.text
    slow = [*here[:2], *[replace(sample(0.1), code="source/a")] * 3]
    (slower,) = compare.judged({"test_a": base}, {"test_a": slow})
    assert slower.verdict.outcome == "regressed" and "2 of 5" in slower.text


def test_code_that_most_processes_of_both_sides_ran_is_compared() -> None:
    base = [replace(sample(0.001 * n), code=code) for code in ("source/a", "other/b") for n in range(5)]
    here = [replace(sample(0.3), code="source/a"), *[replace(sample(0.0), code="other/b")] * 4]
    (found,) = compare.judged({"test_a": base}, {"test_a": here})
    assert found.verdict.outcome == "pass" and "1 of 5" in found.text
    base = [replace(s, device=sample(0.3).device) if s.code == "other/b" else s for s in base]
    (slower,) = compare.judged({"test_a": base}, {"test_a": [replace(sample(0.1), code="source/a")] * 5})
    assert slower.verdict.outcome == "regressed"
    assert "(of +10.3 % wall time, kernels +9.2 %" in slower.text, "against the runs that it was held against"
    assert "compiled device time      901.8 us" in slower.text, "and those are shown"


def test_where_too_few_ran_the_code_of_the_base_all_are_other_compilations() -> None:
    base = [replace(sample(0.001 * n), code=f"source/{tuning}") for n, tuning in enumerate("abcdd")]
    for slower, called in ((0.3, "regressed"), (0.05, "inconclusive"), (0.0, "pass")):
        here = [replace(sample(slower), code=f"source/{tuning}") for tuning in "efgha"]
        (found,) = compare.judged({"test_a": base}, {"test_a": here})
        assert found.verdict.outcome == called
        assert "do not count" not in found.text


def test_one_compilation_in_all_processes_is_one_however_many_are_stored() -> None:
    base = [replace(sample(0.001 * n), code=f"source {n}") for n in range(5)]
    (found,) = compare.judged({"test_a": base}, {"test_a": [replace(sample(0.3), code="new")] * 5})
    assert found.verdict.outcome == "inconclusive"
    assert (
        "1 compilation cannot distinguish this from the compiler's tuning; compile again in every process" in found.text
    )


def test_what_compiling_anew_cannot_tell_is_not_sent_there_again(
    repository: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled_anew(test: str, its: SpeedSample) -> None:
        leave(test, replace(its, code=f"code {len(runs)}"))

    leave = confirm.leave_sample
    monkeypatch.setattr(confirm, "leave_sample", compiled_anew)
    found = compare.compare_with("HEAD~1", ["."], anew=True, say=lambda line: None)
    (text,) = [each.text for each in found if each.test == "test_a.py::test_a"]
    assert "5 compilations cannot distinguish this from the compiler's tuning; only over 10 %" in text
    assert "--anew" not in text


@pytest.mark.parametrize("processes", [1, 2])
def test_few_processes_of_the_same_code_are_held_against_it(processes: int) -> None:
    base = [replace(sample(0.001 * n), code="source/a") for n in range(5)]
    (found,) = compare.judged({"test_a": base}, {"test_a": [replace(sample(0.3), code="source/a")] * processes})
    assert found.verdict.outcome == "inconclusive"
    assert "was not confirmed in fresh processes" in found.text


def test_change_that_is_odd_for_one_test_may_be_chance_among_many() -> None:
    base, here = [sample(0.004 * (n % 3 - 1)) for n in range(5)], [sample(s) for s in (0.015, 0.02, 0.025)]
    alone, many = (
        compare.judged(dict.fromkeys(names, base), dict.fromkeys(names, here)) for names in ("a", "abcdefgh")
    )
    assert {each.verdict.outcome for each in alone} == {"regressed"}
    assert {each.verdict.outcome for each in many} == {"inconclusive"}


def test_sides_alternate_and_the_first_round_only_fills_the_cache(repository: Path, runs: list[str]) -> None:
    found = compare.compare_with("HEAD~1", ["."], rounds=3, say=lambda line: None)
    assert runs == ["here", "base", "base", "here", "here", "base", "base", "here"]
    assert {each.test: each.verdict.outcome for each in found}["test_a.py::test_a"] == "regressed"


@pytest.mark.parametrize(("anew", "processes", "caches"), [(False, 6, 1), (True, 4, 4)])
def test_both_sides_share_a_compile_cache_unless_each_process_compiles_anew(
    repository: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch, anew: bool, processes: int, caches: int
) -> None:
    commands: list[Sequence[str]] = []
    run = Child.run
    monkeypatch.setattr(Child, "run", lambda child, *rest: (commands.append(child.arguments), run(child, *rest))[1])
    compare.compare_with("HEAD~1", ["."], rounds=2, anew=anew, say=lambda line: None)
    used = [argument for command in commands for argument in command if argument.startswith("--compile-cache=")]
    assert (len(used), len(set(used))) == (processes, caches)


def test_other_code_of_one_compilation_cannot_regress() -> None:
    from dataclasses import replace

    base, here = ([replace(sample(s), code=c) for _ in range(5)] for s, c in ((0.0, "one"), (0.5, "two")))
    assert [each.verdict.outcome for each in compare.judged({"t": base}, {"t": here})] == ["inconclusive"]
    before, after = ([replace(s, code=f"{n} {s.code}") for n, s in enumerate(side)] for side in (base, here))
    assert [each.verdict.outcome for each in compare.judged({"t": before}, {"t": after})] == ["regressed"]


def test_checkout_is_removed(repository: Path, runs: list[str]) -> None:
    compare.compare_with("HEAD~1", ["."], rounds=1, say=lambda line: None)
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True).stdout
    assert len(listed.splitlines()) == 1


def test_same_revision_passes(repository: Path, runs: list[str]) -> None:
    git(repository, "checkout", "-q", "HEAD~1")
    assert compare.main(["HEAD"]) == 0


def test_unknown_revision_is_one_line(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["nowhere"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: git rev-parse failed: ")
    assert error.count("\n") == 1


def test_no_speed_test_is_an_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Child, "run", lambda *arguments: Ended(5, "no tests ran"))
    assert compare.main(["HEAD~1", "--rounds", "1"]) == 2
    assert "no test that uses compile_benchmark left any figures" in capsys.readouterr().err


@pytest.mark.parametrize("throttled", ["base", "here"])
def test_problem_on_either_side_is_inconclusive(throttled: str) -> None:
    sides = {"base": [sample(0.0)] * 4, "here": [sample(0.5)] * 4}
    sides[throttled] = [*sides[throttled], sample(0.5, "the device was throttled: hardware slowdown")]
    (found,) = compare.judged({"t": sides["base"]}, {"t": sides["here"]})
    assert (found.verdict.outcome, found.verdict.reason) == (
        "inconclusive", "the device was throttled: hardware slowdown"
    )  # fmt: skip
