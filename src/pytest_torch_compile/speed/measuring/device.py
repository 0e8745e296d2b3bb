"""The state of the device while timing, and who may use it: neither torch nor pytest."""

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

# Bits of nvmlDeviceGetCurrentClocksThrottleReasons. A power cap and an idle clock are normal; these are not.
THROTTLE_REASONS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
_QUERY = "uuid,clocks.sm,clocks.mem,temperature.gpu,power.draw,enforced.power.limit,clocks_throttle_reasons.active"


def device_state(uuid: str) -> dict[str, Any]:
    """Clocks, temperature, power, throttle reasons and processes; ``{}`` where neither NVML nor nvidia-smi is there."""
    try:
        return _state_from_nvml(uuid)
    except Exception:  # NVML raises its own classes, and pynvml may be missing or broken
        return _state_from_command(uuid)


def _state_from_nvml(uuid: str) -> dict[str, Any]:
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        pids = [p.pid for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
        return {
            "sm_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "celsius": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "watts": round(pynvml.nvmlDeviceGetPowerUsage(handle) / 1e3),
            "power_cap_watts": round(pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1e3),
            "throttle": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
            "processes": len(pids),
        }
    finally:
        pynvml.nvmlShutdown()


def _state_from_command(uuid: str) -> dict[str, Any]:
    row = next((r for r in _nvidia_smi(f"--query-gpu={_QUERY}") if r[0] == uuid), None)
    if row is None:
        return {}
    names = ("sm_mhz", "memory_mhz", "celsius", "watts", "power_cap_watts")
    state: dict[str, Any] = {
        name: round(float(text)) for name, text in zip(names, row[1:6], strict=True) if _is_number(text)
    }
    if row[6].startswith("0x"):
        state["throttle"] = int(row[6], 16)
    state["processes"] = sum(r[0] == uuid for r in _nvidia_smi("--query-compute-apps=gpu_uuid,pid"))
    return state


def _nvidia_smi(query: str) -> list[list[str]]:
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line.strip()]


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def device_problems(before: Mapping[str, Any], after: Mapping[str, Any], own_processes: int = 1) -> tuple[str, ...]:
    """Why figures taken between two states must not be gated: a throttled device, or one that others use."""
    problems = []
    active = int(before.get("throttle", 0)) | int(after.get("throttle", 0))
    reasons = [text for bit, text in THROTTLE_REASONS.items() if active & bit]
    if reasons:
        problems.append(f"the device was throttled: {', '.join(reasons)}")
    others = max(int(state.get("processes", 0)) for state in (before, after)) - own_processes
    if others > 0:
        problems.append(f"{others} other process{'es' if others > 1 else ''} used the device")
    return tuple(problems)


class DeviceBusy(RuntimeError):
    """Another timing test held the device for longer than this one would wait."""


@contextmanager
def device_lock(uuid: str, *, wait: float = 600.0, directory: Path | None = None) -> Iterator[None]:
    """Hold the device for one timing test, across processes.

    A child that confirms a verdict for the holder inherits the lock through the environment.

    Raises:
        DeviceBusy: another process held it all of ``wait`` seconds.
    """
    held = os.environ.get(HELD_LOCK, "")
    if uuid in held.split(os.pathsep):
        yield
        return
    lock = machine_lock(uuid, directory)
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        message = f"another timing test has held the device for {wait:.0f} s ({lock.lock_file})"
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


def processes_of_holders() -> int:
    """How many processes of this run may have the device open: this one, and the one it confirms for."""
    return 2 if os.environ.get("PYTEST_TORCH_COMPILE_CONFIRMS") else 1
