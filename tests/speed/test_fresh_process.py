"""A fresh process measures one test again and leaves its sample."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_torch_compile.child import Child, Ended
from pytest_torch_compile.disk import first_free
from pytest_torch_compile.speed import fresh_process as confirm
from pytest_torch_compile.speed import gpus
from pytest_torch_compile.speed.measuring import turns
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
    assert confirm.fresh_sample(Child(["test_it.py::test_leaves"], project), "cpu", cache=None) == SAMPLE


def test_failure_there_is_one_line(project: Path) -> None:
    with pytest.raises(confirm.NoFigures, match=r"returned no measurements: .*1 failed") as caught:
        confirm.fresh_sample(Child(["test_it.py::test_fails"], project), "cpu", cache=None)
    assert "\n" not in str(caught.value)


def test_endless_process_is_ended(project: Path) -> None:
    (project / "test_endless.py").write_text("import time\ntime.sleep(60)\n")
    samples, ended = confirm.run(Child(["test_endless.py"], project), 0.2)
    assert (samples, ended.summary) == ({}, "it took longer than 0 s")


def test_nobody_asked_for_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(confirm.SAMPLES, raising=False)
    confirm.leave_sample("a.py::t", SAMPLE)
    assert not list(tmp_path.iterdir())


def test_cold_and_warm_start_share_a_cache_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    caches = []

    def run(
        child: Child, seconds: float, environment: Mapping[str, str], stop: threading.Event | None
    ) -> tuple[dict[str, SpeedSample], Ended]:
        caches.append(environment["TORCHINDUCTOR_CACHE_DIR"])
        assert not list(Path(caches[0]).iterdir())
        assert child.job.options == {"compile_cache": caches[0]}
        assert environment[confirm.CONFIRMS] == "GPU-b"
        return {"a": SAMPLE}, Ended(0, "")

    monkeypatch.setattr(confirm, "run", run)
    assert confirm.cold_and_warm_start(CHILD, "GPU-b") == (replace(SAMPLE, kept_cache=True),) * 2
    assert caches[0] == caches[1]


@pytest.fixture
def three_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpus, "nvidia_smi", lambda query: [["0", "GPU-a"], ["1", "GPU-b"], ["2", "GPU-c"]])
    monkeypatch.setattr(confirm, "first_free", lambda names: first_free(names, tmp_path))
    monkeypatch.setattr(gpus, "room", lambda uuid, needed: 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("three_gpus")
def test_gpus_measure_at_once_each_in_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    both, seen, caches = threading.Barrier(2, timeout=20), [], set()

    def run(
        child: Child, seconds: float, environment: Mapping[str, str], stop: threading.Event
    ) -> tuple[dict[str, SpeedSample], Ended]:
        both.wait()
        seen.append((environment["CUDA_VISIBLE_DEVICES"], environment[confirm.CONFIRMS]))
        caches.add(environment["TORCHINDUCTOR_CACHE_DIR"])
        return {"a": SAMPLE}, Ended(0, "")

    monkeypatch.setattr(confirm, "run", run)
    assert list(confirm.fresh_samples(CHILD, 2, devices=["GPU-b", "GPU-a"], cache=None)) == [SAMPLE, SAMPLE]
    assert sorted(seen) == [("GPU-a", "GPU-a"), ("GPU-b", "GPU-b")]
    assert len(caches) == 2
    caches.clear()
    kept = list(confirm.fresh_samples(CHILD, 2, devices=["GPU-b", "GPU-a"], cache="kept"))
    assert [sample.kept_cache for sample in kept] == [True, True]
    assert caches == {"kept"}


@pytest.fixture
def most_at_once(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of running processes, at the start of each process."""
    running, most = [], []

    def run(
        child: Child, seconds: float, environment: Mapping[str, str], stop: threading.Event
    ) -> tuple[dict[str, SpeedSample], Ended]:
        running.append(1)
        most.append(len(running))
        time.sleep(0.15)
        running.pop()
        return {"a": SAMPLE}, Ended(0, "")

    monkeypatch.setattr(confirm, "run", run)
    return most


@pytest.mark.usefixtures("three_gpus")
def test_no_more_processes_run_at_once_than_there_is_room_for(
    most_at_once: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tests confirm a change at the same time, on one GPU that has room for two processes."""
    monkeypatch.setattr(gpus, "room", lambda uuid, needed: 2)
    with ThreadPoolExecutor(2) as pool:
        tests = [pool.submit(list, confirm.fresh_samples(CHILD, 4, devices=["GPU-b"], cache=None)) for _ in range(2)]
    assert [test.result() for test in tests] == [[SAMPLE] * 4] * 2
    assert max(most_at_once) == 2


@pytest.mark.usefixtures("three_gpus")
@pytest.mark.parametrize(("free", "most"), [(0, 1), (1, 2), (3, 4)])
def test_no_more_processes_run_at_once_than_memory_is_reserved_for(
    most_at_once: list[int], monkeypatch: pytest.MonkeyPatch, free: int, most: int
) -> None:
    places = threading.Semaphore(free)

    @contextmanager
    def more_memory(uuid: str, needed: int) -> Iterator[bool]:
        reserved = places.acquire(blocking=False)
        try:
            yield reserved
        finally:
            if reserved:
                places.release()

    monkeypatch.setattr(gpus, "room", lambda uuid, needed: 8)
    monkeypatch.setattr(turns, "more_memory", more_memory)
    assert list(confirm.fresh_samples(CHILD, 4, devices=["GPU-b"], cache=None)) == [SAMPLE] * 4
    assert max(most_at_once) == most


@pytest.mark.usefixtures("three_gpus")
def test_a_process_that_fails_does_not_stop_the_others_from_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    first = threading.Lock()

    def run(
        child: Child, seconds: float, environment: Mapping[str, str], stop: threading.Event
    ) -> tuple[dict[str, SpeedSample], Ended]:
        if first.acquire(blocking=False):
            return {}, Ended(1, "out of memory")
        return {"a": SAMPLE}, Ended(0, "")

    monkeypatch.setattr(confirm, "run", run)
    assert list(confirm.fresh_samples(CHILD, 2, devices=["GPU-b", "GPU-a"], cache=None)) == [SAMPLE]
    first.release()
    with pytest.raises(confirm.NoFigures, match="out of memory"):
        list(confirm.fresh_samples(CHILD, 1, devices=["GPU-b", "GPU-a"], cache=None))


@pytest.mark.usefixtures("three_gpus")
def test_processes_that_have_not_started_do_not_start_once_the_result_is_certain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []

    def run(
        child: Child, seconds: float, environment: Mapping[str, str], stop: threading.Event
    ) -> tuple[dict[str, SpeedSample], Ended]:
        started.append(1)
        if len(started) > 1:
            stop.wait(20)
        return {"a": SAMPLE}, Ended(0, "")

    monkeypatch.setattr(confirm, "run", run)
    samples = confirm.fresh_samples(CHILD, 7, devices=["GPU-b"], cache=None)
    assert next(samples) == SAMPLE
    samples.close()
    assert len(started) <= 2


def test_processes_that_are_not_needed_any_more_are_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two processes leaves its sample; the second would run for a minute."""
    monkeypatch.setattr(gpus, "nvidia_smi", lambda query: [])
    (project / "test_two.py").write_text(
        "import os, pathlib, shutil, time\n"
        "def test_one_of_two():\n"
        "    try:\n"
        "        pathlib.Path('first').mkdir()\n"
        "    except FileExistsError:\n"
        "        time.sleep(60)\n"
        "    shutil.copy('made.json', pathlib.Path(os.environ['PYTEST_TORCH_COMPILE_SAMPLES']) / 'a.json')\n"
    )
    start = time.monotonic()
    samples = confirm.fresh_samples(Child(["test_two.py"], project), 2, devices=["cpu"], cache="kept")
    assert next(samples).wall == SAMPLE.wall
    samples.close()
    assert time.monotonic() - start < 50
