"""Distribute this machine's GPUs among the processes of a run. This module imports neither torch nor pytest."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path

from .measuring.device import HELD_LOCK, DeviceBusy, device_lock, nvidia_smi
from .sample import Paired

VISIBLE = "CUDA_VISIBLE_DEVICES"
# This variable lists all GPUs of the run. A pytest-xdist worker uses only one GPU, but the processes that it starts to
# confirm a change can use any idle GPU.
ALL = "PYTEST_TORCH_COMPILE_GPUS"
SHARED_BY = "PYTEST_TORCH_COMPILE_WORKERS_OF_A_GPU"

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


def give_worker_its_own(number: int, workers: int) -> None:
    """Restrict this pytest-xdist worker to one GPU. This function must be called before CUDA is initialized."""
    gpus = visible()
    if gpus:
        os.environ[ALL] = ",".join(gpus)
        os.environ[VISIBLE] = gpus[number % len(gpus)]
        os.environ[SHARED_BY] = str(-(-workers // len(gpus)))


@contextmanager
def free_ones(own: str, at_most: int) -> Iterator[list[str]]:
    """Yield a list of at most ``at_most`` GPUs: ``own``, which this process has already locked, and idle GPUs, which
    are locked until the ``with`` block ends.
    """
    with ExitStack() as locks:
        gpus, others = [own], visible()
        for uuid in others if own in others else []:  # tests on a CPU stay on the CPU
            if uuid != own and len(gpus) < at_most:
                try:
                    locks.enter_context(device_lock(uuid, wait=0))
                except DeviceBusy:
                    continue
                gpus.append(uuid)
        yield gpus


def room(memory: Paired | None, uuid: str) -> int:
    """Return how many processes (at least one) can run a test at the same time on each device.

    The number of CPU cores and the free memory limit the result. ``memory`` is the memory that the test needs in eager
    and in compiled code.
    """
    limits = [(os.cpu_count() or 2) - 1]
    if found := re.search(r"^MemAvailable: +(\d+) kB", _text(MEMORY_OF_HOST), re.M):
        limits.append(int(found[1]) * 1024 // HOST_BYTES)
    needed = GPU_BYTES + (round(memory.eager + memory.compiled) if memory else 0)
    free = {row[0]: row[1] for row in nvidia_smi("--query-gpu=uuid,memory.free")}
    if free.get(uuid, "").isdigit():
        limits.append(int(free[uuid]) * 2**20 // needed)
    return max(1, min(limits))


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii", errors="replace") if path.exists() else ""


def only(uuid: str, gpus: Sequence[str]) -> dict[str, str | None]:
    """Return the environment variables for a child that measures on GPU ``uuid``. ``gpus`` lists all GPUs that this
    process has locked.
    """
    seen = {} if uuid not in visible() else {VISIBLE: uuid}
    return {**seen, HELD_LOCK: os.pathsep.join(gpus)}
