"""The state of the device, and one timing test at a time."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_torch_compile.speed.measuring import device
from tests.plugin.projects import other_process


def test_idle_or_power_capped_device_is_fine() -> None:
    assert device.device_problems({"throttle": 0x1, "processes": 1}, {"throttle": 0x4, "processes": 1}) == ()
    assert device.device_problems({}, {}) == ()


def test_throttled_device_is_named() -> None:
    assert device.device_problems({"throttle": 0}, {"throttle": 0x60}) == (
        "the device was throttled: software thermal slowdown, hardware thermal slowdown",
    )


def test_other_processes_are_counted() -> None:
    assert device.device_problems({"processes": 1}, {"processes": 3}) == ("2 other processes used the device",)
    assert device.device_problems({"processes": 2, "users": 2}, {"processes": 2, "users": 3}) == ()


def test_state_without_any_tool_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert device.device_state("GPU-1") == {}


def test_state_from_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(query: str) -> list[list[str]]:
        if "compute-apps" in query:
            return [["GPU-1", "10"], ["GPU-2", "11"]]
        return [["GPU-1", "1980", "3201", "40", "120.53", "700.00", "0x0000000000000004"]]

    monkeypatch.setattr(device, "nvidia_smi", answer)
    assert device.device_state("GPU-1") == {
        "sm_mhz": 1980, "memory_mhz": 3201, "celsius": 40, "watts": 121, "power_cap_watts": 700, "throttle": 4,
        "processes": 1,
    }  # fmt: skip
    assert device.device_state("GPU-9") == {}


def _hold(directory: Path, taken: Any, done: Any) -> None:
    with device.device_lock("GPU-1", directory=directory):
        taken.set()
        done.wait(30)


def test_second_process_waits_or_gives_up(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    taken, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, taken, done))
    holder.start()
    assert taken.wait(60)
    with pytest.raises(device.DeviceBusy, match="another speed test is still using the device"):
        with device.device_lock("GPU-1", wait=0.2, directory=tmp_path):
            pass
    with device.device_lock("GPU-2", wait=0.2, directory=tmp_path):
        pass
    done.set()
    holder.join(30)
    with device.device_lock("GPU-1", wait=5, directory=tmp_path):
        pass


def test_lock_is_inherited_and_given_back(tmp_path: Path) -> None:
    with device.device_lock("GPU-1", directory=tmp_path):
        assert os.environ[device.HELD_LOCK] == "GPU-1"
        with device.device_lock("GPU-1", wait=0, directory=tmp_path):
            pass
        with device.device_lock("GPU-2", wait=0, directory=tmp_path):
            assert os.environ[device.HELD_LOCK] == f"GPU-1{os.pathsep}GPU-2"
    assert device.HELD_LOCK not in os.environ


WORKERS = """
import os, time
from pathlib import Path
import pytest
from pytest_torch_compile.speed.measuring.device import device_lock

def note(text):
    with Path("log").open("a") as log:
        log.write(f"{text} {os.environ['PYTEST_XDIST_WORKER']}\\n")

@pytest.mark.parametrize("number", range(6))
def test_holds_the_device(number):
    with device_lock("GPU-1", directory=Path.cwd()):
        note("in")
        time.sleep(0.1)
        note("out")
"""


def test_workers_of_xdist_never_hold_a_device_together(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_workers.py").write_text(WORKERS)
    done = other_process(tmp_path, "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (tmp_path / "log").read_text().splitlines()
    for entered, left in zip(lines[::2], lines[1::2], strict=True):
        assert (entered.split()[0], left.split()[0]) == ("in", "out")
        assert entered.split()[1] == left.split()[1]
    assert {line.split()[1] for line in lines} == {"gw0", "gw1"}
