"""Distribute this machine's GPUs among the processes of a run. This module imports neither torch nor pytest."""

from __future__ import annotations

import os
import re
from itertools import takewhile
from pathlib import Path

from .measuring.device import nvidia_smi
from .measuring.turns import PROCESS_BYTES

VISIBLE = "CUDA_VISIBLE_DEVICES"
# The number of processes in which Inductor compiles kernels, and a variable that is set if this run reduced it to one.
THREADS, ONE_THREAD = "TORCHINDUCTOR_COMPILE_THREADS", "PYTEST_TORCH_COMPILE_ONE_THREAD"
# This variable lists all GPUs of the run. A pytest-xdist worker uses only one GPU, but the processes that it starts to
# confirm a change can use all of them.
ALL = "PYTEST_TORCH_COMPILE_GPUS"

# A generous estimate, not a measurement, of the host memory that a process needs for torch, Triton and the compilers.
HOST_BYTES = 5 * 2**30
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


def give_worker_a_gpu(number: int) -> str:
    """Restrict this pytest-xdist worker to one GPU, and return its UUID, or an empty string if there is no GPU. This
    function must be called before CUDA is initialized.
    """
    if not (gpus := visible()):
        return ""
    os.environ[ALL] = ",".join(gpus)
    os.environ[VISIBLE] = own = gpus[number % len(gpus)]
    return own


def workers() -> int | None:
    """Return the number of pytest-xdist workers for all GPUs, or None if there is no GPU.

    Workers that wait for their turn to measure need no core, so there are more workers than cores.
    """
    # They use at most a third of the GPU's memory before a test has created a tensor.
    return sum(room(uuid, needed=2 * PROCESS_BYTES, share=1.5) for uuid in visible()) or None


def own_and_others(own: str) -> list[str]:
    """Return the devices that can measure for the process that uses ``own``: ``own``, followed by the run's other GPUs.
    A test on a CPU stays on the CPU.
    """
    gpus = visible()
    return [own, *(uuid for uuid in gpus if uuid != own)] if own in gpus else [own]


def room(uuid: str, needed: int = 0, share: float = 1.0) -> int:
    """Return how many processes (at least one) can compile at the same time for a device, if there are ``share``
    processes for each CPU core, and each process needs ``needed`` bytes on the device.

    The memory of the host and the free memory of the device also limit the result.
    """
    devices = len(visible()) or 1
    # A container or a batch system may give this process only some of the machine's cores.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    limits = [int(share * cores) // devices - 1]  # one core is for the process that measures
    memory = MEMORY_OF_HOST.read_text(encoding="ascii", errors="replace") if MEMORY_OF_HOST.exists() else ""
    if found := re.search(r"^MemAvailable: +(\d+) kB", memory, re.M):
        limits.append(int(found[1]) * 1024 // HOST_BYTES // devices)
    free = {row[0]: row[1] for row in nvidia_smi("--query-gpu=uuid,memory.free")}
    if free.get(uuid, "").isdigit():
        limits.append(int(free[uuid]) * 2**20 // (PROCESS_BYTES + needed))
    return max(1, min(limits))


def only(uuid: str) -> dict[str, str | None]:
    """Return the environment variables for a child that measures on GPU ``uuid``."""
    return {VISIBLE: uuid} if uuid in visible() else {}
