"""Read the state of a device, and reserve a device for one process. This module imports neither torch nor pytest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import Timeout

from ...disk import machine_lock

HELD_LOCK = "PYTEST_TORCH_COMPILE_DEVICE_LOCK"
# How long a process waits before it tries again to reserve a device.
RETRY_SECONDS = 0.05

# Bits of nvmlDeviceGetCurrentClocksThrottleReasons. A power cap and idle clocks are normal, so they are not in this
# mapping.
THROTTLE_REASONS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
# The nvidia-smi fields to query, and the names under which numeric fields are stored. Unlike NVML bindings, nvidia-smi
# comes with every driver.
QUERIED = {
    "uuid": "",
    "clocks.sm": "sm_mhz",
    "clocks.mem": "memory_mhz",
    "temperature.gpu": "celsius",
    "power.draw": "watts",
    "enforced.power.limit": "power_cap_watts",
    "clocks_throttle_reasons.active": "",
}


def device_state(uuid: str) -> dict[str, Any]:
    """Return a device's clocks, temperature, power, throttle reasons and number of processes, or ``{}`` if these values
    are unknown.
    """
    row = next((row for row in nvidia_smi(f"--query-gpu={','.join(QUERIED)}") if row[0] == uuid), None)
    if row is None:
        return {}
    # Unsupported fields contain "[N/A]".
    state: dict[str, Any] = {
        name: round(float(text))
        for name, text in zip(QUERIED.values(), row, strict=True)
        if name and text.replace(".", "", 1).isdigit()
    }
    if row[-1].startswith("0x"):
        state["throttle"] = int(row[-1], 16)
    state["processes"] = sum(row[0] == uuid for row in nvidia_smi("--query-compute-apps=gpu_uuid,pid"))
    return state


def nvidia_smi(query: str) -> list[list[str]]:
    """Return the rows that nvidia-smi prints, or an empty list if the command is missing or fails."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


def device_problems(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the reasons why measured times are unreliable: the device was throttled, or other processes used it.
    ``before`` and ``after`` are the device's states before and after the measurement; ``users`` in a state is the
    number of processes of speed tests, which pause while one of them measures.
    """
    problems = []
    active = int(before.get("throttle", 0)) | int(after.get("throttle", 0))
    reasons = [text for bit, text in THROTTLE_REASONS.items() if active & bit]
    if reasons:
        problems.append(f"the device was throttled: {', '.join(reasons)}")
    others = max(int(state.get("processes", 0)) - int(state.get("users", 1)) for state in (before, after))
    if others > 0:
        problems.append(f"{others} other process{'es' if others > 1 else ''} used the device")
    return tuple(problems)


class DeviceBusy(RuntimeError):
    """Raised when the device cannot be reserved within the time limit; the message is one line."""


def is_held(uuid: str) -> bool:
    """Return whether this process, or the process that started it, has reserved the device."""
    return uuid in os.environ.get(HELD_LOCK, "").split(os.pathsep)


@contextmanager
def device_lock(
    uuid: str, *, wait: float = 600.0, directory: Path | None = None, retry: float = RETRY_SECONDS
) -> Iterator[None]:
    """Inside the ``with`` block, reserve the device for one speed test: no other process runs measurements on the
    device. If the device is reserved, try again every ``retry`` seconds.

    A child process that measures for this process inherits the lock through an environment variable.

    Raises:
        DeviceBusy: If another process still holds the lock after ``wait`` seconds, or another user owns the lock file.
    """
    if is_held(uuid):
        yield
        return
    held = os.environ.get(HELD_LOCK, "")
    lock = machine_lock(uuid, directory)
    try:
        lock.acquire(timeout=wait, poll_interval=retry)
    except Timeout:
        message = f"another speed test is still using the device after {wait:.0f} s ({lock.lock_file})"
        raise DeviceBusy(message) from None
    except PermissionError:
        message = f"the lock file {lock.lock_file} belongs to another user of this machine; delete this file"
        raise DeviceBusy(message) from None
    os.environ[HELD_LOCK] = os.pathsep.join(filter(None, [held, uuid]))
    try:
        yield
    finally:
        if held:
            os.environ[HELD_LOCK] = held
        else:
            del os.environ[HELD_LOCK]
        lock.release()
