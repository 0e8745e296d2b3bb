"""Which GPUs a run may use, and which of them a worker and a child get. nvidia-smi is made up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_torch_compile.disk import machine_lock
from pytest_torch_compile.speed import gpus
from pytest_torch_compile.speed.measuring import device
from pytest_torch_compile.speed.sample import Paired

UUIDS = ["GPU-aa11", "GPU-ab22", "GPU-cc33"]


@pytest.fixture(autouse=True)
def three_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(gpus, "nvidia_smi", lambda query: [[str(n), uuid] for n, uuid in enumerate(UUIDS)])
    monkeypatch.setattr(device, "machine_lock", lambda name, directory: machine_lock(name, tmp_path))
    # Set first, so that what the code sets itself is undone too.
    for name in (gpus.VISIBLE, gpus.ALL, gpus.SHARED_BY, device.HELD_LOCK):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


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
    gpus.give_worker_its_own(0, 2)
    assert os.environ[gpus.VISIBLE] == "0" and gpus.SHARED_BY not in os.environ


@pytest.mark.parametrize(
    ("number", "workers", "own", "shared"), [(0, 2, 2, 1), (1, 2, 1, 1), (2, 3, 2, 2), (3, 5, 1, 3)]
)
def test_worker_sees_its_own_and_knows_all(
    monkeypatch: pytest.MonkeyPatch, number: int, workers: int, own: int, shared: int
) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "2,1")
    gpus.give_worker_its_own(number, workers)
    assert (os.environ[gpus.VISIBLE], os.environ[gpus.SHARED_BY]) == (UUIDS[own], str(shared))
    assert gpus.visible() == [UUIDS[2], UUIDS[1]]


def test_free_ones_are_locked_and_busy_ones_left_out(three_gpus: Path) -> None:
    with machine_lock(UUIDS[1], three_gpus), device.device_lock(UUIDS[0]):
        with gpus.free_ones(UUIDS[0], 8) as free:
            assert free == [UUIDS[0], UUIDS[2]]
            assert os.environ[device.HELD_LOCK].split(os.pathsep) == free, "a child inherits both"
            assert not is_free(three_gpus, UUIDS[2])
        assert is_free(three_gpus, UUIDS[2])
        assert os.environ[device.HELD_LOCK] == UUIDS[0]
        with gpus.free_ones(UUIDS[0], 1) as free:
            assert free == [UUIDS[0]]


def is_free(folder: Path, uuid: str) -> bool:
    from filelock import Timeout

    try:
        with machine_lock(uuid, folder).acquire(timeout=0):
            return True
    except Timeout:
        return False


def test_child_sees_one_and_holds_all_locks() -> None:
    assert gpus.only(UUIDS[2], UUIDS[1:]) == {
        gpus.VISIBLE: UUIDS[2], device.HELD_LOCK: f"{UUIDS[1]}{os.pathsep}{UUIDS[2]}"
    }  # fmt: skip
    assert gpus.only("cpu", ["cpu"]) == {device.HELD_LOCK: "cpu"}


@pytest.mark.parametrize(
    ("available", "free", "cores", "expected"),
    [
        ("400 GB", "140000", 16, 15),
        ("400 GB", "20000", 16, 5),  # 4 GB on the GPU for each
        ("20 GB", "140000", 16, 3),  # 5 GiB on the host for each
        ("400 GB", "3000", 16, 1),
        ("400 GB", "[N/A]", 4, 3),
    ],
)
def test_as_many_processes_compile_at_once_as_fit(
    available: str, free: str, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:  {int(available[:-3]) * 10**6} kB\n")
    monkeypatch.setattr(gpus, "MEMORY_OF_HOST", tmp_path / "meminfo")
    monkeypatch.setattr(gpus, "nvidia_smi", lambda query: [["GPU-aa11", free]])
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert gpus.room(Paired(0.9e9, 0.9e9, 0.0), "GPU-aa11") == expected
