"""A fresh process measures one test again and leaves its sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_torch_compile.child import Child
from pytest_torch_compile.speed import fresh_process as confirm
from pytest_torch_compile.speed.sample import Paired, SpeedSample

SAMPLE = SpeedSample(wall=Paired(2.0, 1.0, -0.69), cold_start=(0.1, 3.0))
CHILD = Child(["-q"], Path()).with_options(compile_cache="session")
LEAVES = """
    import os, pathlib, shutil
    def test_leaves():
        shutil.copy("made.json", pathlib.Path(os.environ["PYTEST_TORCH_COMPILE_SAMPLES"]) / "a.json")
    def test_fails():
        assert False, "broken"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(confirm.SAMPLES, str(pytester.path))
    confirm.leave_sample("made", SAMPLE)
    next(pytester.path.glob("*.json")).rename(pytester.path / "made.json")
    pytester.makepyfile(test_it=LEAVES)
    return pytester.path


def test_sample_comes_back(project: Path) -> None:
    assert confirm.fresh_sample(Child(["test_it.py::test_leaves"], project)) == SAMPLE


def test_failure_there_is_one_line(project: Path) -> None:
    with pytest.raises(confirm.NoFigures, match=r"gave no figures: .*1 failed") as caught:
        confirm.fresh_sample(Child(["test_it.py::test_fails"], project))
    assert "\n" not in str(caught.value)


def test_endless_process_is_ended(project: Path) -> None:
    (project / "test_endless.py").write_text("import time\ntime.sleep(60)\n")
    samples, ended = confirm.run(Child(["test_endless.py"], project), 0.2)
    assert (samples, ended.last_line) == ({}, "it took longer than 0 s")


def test_nobody_asked_for_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(confirm.SAMPLES, raising=False)
    confirm.leave_sample("a.py::t", SAMPLE)
    assert not list(tmp_path.iterdir())


def test_cold_and_warm_start_share_a_cache_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = []

    def fresh(child: Child, environment: dict[str, str]) -> SpeedSample:
        caches.append(environment["TORCHINDUCTOR_CACHE_DIR"])
        assert (child.arguments, child.job.options) == (["-q"], {"compile_cache": caches[-1]})
        return SAMPLE

    monkeypatch.setattr(confirm, "fresh_sample", fresh)
    assert confirm.cold_and_warm_start(CHILD) == (3.0, 3.0)
    assert caches[0] == caches[1]


def test_compiled_anew_finds_an_empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def fresh(child: Child, environment: dict[str, str]) -> SpeedSample:
        assert not list(Path(environment["TORCHINDUCTOR_CACHE_DIR"]).iterdir())
        assert child.job.options == {"compile_cache": environment["TORCHINDUCTOR_CACHE_DIR"]}
        return SAMPLE

    monkeypatch.setattr(confirm, "fresh_sample", fresh)
    assert confirm.compiled_anew(CHILD) == SAMPLE
