"""Distribute this machine's GPUs among the processes of a run. This module imports neither torch nor pytest."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from .measuring.device import nvidia_smi

VISIBLE = "CUDA_VISIBLE_DEVICES"
# This variable lists all GPUs of the run. A pytest-xdist worker uses only one GPU, but the processes that it starts to
# confirm a change can use all of them.
ALL = "PYTEST_TORCH_COMPILE_GPUS"

# Generous estimates, not measurements, of the memory that a process needs in addition to its tensors: on a GPU for the
# CUDA context and library workspaces, and on the host for torch, Triton and the compilers.
GPU_BYTES, HOST_BYTES = 2 * 2**30, 5 * 2**30
MEMORY_OF_HOST = Path("/proc/meminfo")


def visible() -> list[str]:
    """Return the UUIDs of the GPUs that this run may use, or an empty list if nvidia-smi is missing."""
    by_index = {row[0]: row[1] for row in nvidia_smi("--query-gpu=index,uuid")}
    chosen = os.environ.get(ALL, os.environ.get(VISIBLE))
    if chosen is None:
        return list(by_index.values())
    # As in CUDA, names can be abbreviated, and devices listed after an unknown device, such as -1, are ignored.
    names = [by_index.get(name.strip(), name.strip()) for name in chosen.split(",")]
    whole = (next((uuid for uuid in by_index.values() if name and uuid.startswith(name)), "") for name in names)
    return list(takewhile(bool, whole))


def give_worker_its_own(number: int) -> str:
    """Restrict this pytest-xdist worker to one GPU, and return its UUID, or an empty string if there is no GPU. This
    function must be called before CUDA is initialized.
    """
    if not (gpus := visible()):
        return ""
    os.environ[ALL] = ",".join(gpus)
    os.environ[VISIBLE] = own = gpus[number % len(gpus)]
    return own


def workers(memory: Mapping[str, int]) -> int | None:
    """Return the number of pytest-xdist workers that can compile at the same time on all GPUs, or None if there is no
    GPU.

    ``memory`` maps each test to the number of bytes that its compiled code needs on the GPU. If it is empty, these
    numbers are unknown, and each GPU gets one worker.
    """
    gpus = visible()
    # A test holds its own model, and a copy of the model for eager and for compiled code.
    needed = 3 * max(memory.values(), default=0)
    most = sum(room(needed, uuid) if needed else 1 for uuid in gpus)
    return max(len(gpus), min(most, len(memory))) or None


def own_and_others(own: str) -> list[str]:
    """Return the devices that can measure for the process that uses ``own``: ``own``, followed by the run's other GPUs.
    A test on a CPU stays on the CPU.
    """
    gpus = visible()
    return [own, *(uuid for uuid in gpus if uuid != own)] if own in gpus else [own]


def room(memory: int | None, uuid: str) -> int:
    """Return how many processes (at least one) can compile at the same time for each device.

    The number of CPU cores and the free memory limit the result. ``memory`` is the number of bytes that a test needs on
    the device.
    """
    devices = len(visible()) or 1
    # While a process measures on one device, the processes of other devices compile: leave a core for each of them.
    limits = [_cores() // devices - 1]
    if found := re.search(r"^MemAvailable: +(\d+) kB", _text(MEMORY_OF_HOST), re.M):
        limits.append(int(found[1]) * 1024 // HOST_BYTES // devices)
    free = {row[0]: row[1] for row in nvidia_smi("--query-gpu=uuid,memory.free")}
    if free.get(uuid, "").isdigit():
        limits.append(int(free[uuid]) * 2**20 // (GPU_BYTES + (memory or 0)))
    return max(1, min(limits))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii", errors="replace") if path.exists() else ""


def only(uuid: str) -> dict[str, str | None]:
    """Return the environment variables for a child that measures on GPU ``uuid``."""
    return {VISIBLE: uuid} if uuid in visible() else {}
