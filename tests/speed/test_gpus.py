"""Which GPUs a run may use, and which of them a worker and a child get. nvidia-smi is made up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_torch_compile.speed import gpus

UUIDS = ["GPU-aa11", "GPU-ab22", "GPU-cc33"]


@pytest.fixture(autouse=True)
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "nvidia_smi", lambda query: [[str(n), uuid] for n, uuid in enumerate(UUIDS)])
    # Set first, so that what the code sets itself is undone too.
    for name in (gpus.VISIBLE, gpus.ALL):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2, 0", [2, 0]),
        ("GPU-cc33,GPU-aa11", [2, 0]),
        ("GPU-ab,GPU-c", [1, 2]),
        ("-1", []),
        ("0,-1,1", [0]),
        ("7", []),
    ],
    ids=["unset", "empty", "an index", "indices", "uuids", "shortened", "none", "up to an unknown one", "unknown"],
)
def test_variable_of_cuda_says_which_are_visible(
    monkeypatch: pytest.MonkeyPatch, chosen: str | None, numbers: list[int]
) -> None:
    if chosen is not None:
        monkeypatch.setenv(gpus.VISIBLE, chosen)
    assert gpus.visible() == [UUIDS[number] for number in numbers]


def test_without_nvidia_smi_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "nvidia_smi", lambda query: [])
    monkeypatch.setenv(gpus.VISIBLE, "0")
    assert gpus.visible() == []
    assert gpus.give_worker_a_gpu(0) == ""
    assert os.environ[gpus.VISIBLE] == "0" and gpus.ALL not in os.environ
    assert gpus.workers() is None, "pytest-xdist decides"


@pytest.mark.parametrize(("number", "own"), [(0, 2), (1, 1), (2, 2)])
def test_worker_sees_its_own_and_knows_all(monkeypatch: pytest.MonkeyPatch, number: int, own: int) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "2,1")
    assert gpus.give_worker_a_gpu(number) == os.environ[gpus.VISIBLE] == UUIDS[own]
    assert gpus.visible() == [UUIDS[2], UUIDS[1]]


def test_fresh_processes_use_the_gpu_of_their_parent_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpus.own_and_others(UUIDS[1]) == [UUIDS[1], UUIDS[0], UUIDS[2]]
    assert gpus.own_and_others("cpu") == ["cpu"], "a test on a CPU stays there"
    assert gpus.only(UUIDS[1]) == {gpus.VISIBLE: UUIDS[1]}
    assert gpus.only("cpu") == {}


@pytest.mark.parametrize(
    ("available", "free", "cores", "gpu_count", "expected", "workers"),
    [
        ("400 GB", "140000", 16, 1, 15, 22),
        ("400 GB", "140000", 32, 2, 15, 44),
        ("400 GB", "140000", 64, 3, 20, 66),
        ("400 GB", "20000", 16, 1, 5, 3),  # 4 GB on the GPU for each, and 6 GB for each worker
        ("20 GB", "140000", 16, 1, 3, 3),  # 5 GiB on the host for each
        ("40 GB", "140000", 32, 2, 3, 6),
        ("400 GB", "3000", 16, 1, 1, 1),
        ("400 GB", "[N/A]", 4, 1, 3, 5),
    ],
)
def test_as_many_processes_compile_at_once_as_fit(
    available: str,
    free: str,
    cores: int,
    gpu_count: int,
    expected: int,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:  {int(available[:-3]) * 10**6} kB\n")
    monkeypatch.setattr(gpus, "MEMORY_OF_HOST", tmp_path / "meminfo")
    monkeypatch.setattr(gpus, "visible", lambda: UUIDS[:gpu_count])
    monkeypatch.setattr(gpus, "nvidia_smi", lambda query: [[uuid, free] for uuid in UUIDS])
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    assert (gpus.room(UUIDS[0], round(1.8e9)), gpus.workers()) == (expected, workers)
