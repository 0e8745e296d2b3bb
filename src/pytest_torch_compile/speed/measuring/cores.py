"""Reserve CPU cores for a process that measures speed. This module imports neither torch nor pytest.

In measurements, a process that could move between all cores was 1% to 4% slower after its first test, and its times
varied more. Also, on a machine with several devices, two processes that measure at the same time must not use the same
cores. If there are enough cores, processes that compile do not use these cores either, so they can continue while
another process measures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...disk import first_free

CORES = 4
# If there are fewer cores for each device, processes that compile use all of them, and pause while a process measures.
ENOUGH = 3 * CORES
# A process that leaves cores free passes the numbers of all cores to the processes that it starts.
ALL = "PYTEST_TORCH_COMPILE_CORES"


def leave_free(devices: int) -> None:
    """Keep this process, and the processes that it starts, off the cores on which processes measure, if the machine has
    enough cores.
    """
    if not devices or not hasattr(os, "sched_setaffinity") or len(cores := _all()) < ENOUGH * devices:
        return
    os.environ[ALL] = ",".join(map(str, cores))
    for thread in _threads():
        _move(thread, set(cores[: -CORES * devices]))


def are_free() -> bool:
    """Return whether this process leaves the cores free on which processes measure."""
    return bool(os.environ.get(ALL))


def _all() -> list[int]:
    """Return the numbers of the cores that this run may use, in ascending order."""
    passed = os.environ.get(ALL)
    return [int(core) for core in passed.split(",")] if passed else sorted(os.sched_getaffinity(0))


@contextmanager
def own_cores(directory: Path | None = None) -> Iterator[None]:
    """Inside the ``with`` block, keep this process's threads on a few cores, if possible on cores that no other
    measuring process uses.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    with _free_cores(directory) as cores:
        moved = {thread: before for thread in _threads() if (before := _move(thread, cores))}
        try:
            yield
        finally:
            for thread, before in moved.items():
                _move(thread, before)


@contextmanager
def _free_cores(directory: Path | None) -> Iterator[set[int]]:
    """Lock a group of cores that no other process has locked, and yield it. Groups with higher core numbers are tried
    first. If no group is free, yield the cores with the highest numbers.
    """
    cores = _all()[::-1]
    groups = [cores[start : start + CORES] for start in range(0, len(cores) - CORES + 1, CORES)]
    names = {f"cores-{group[-1]}-{group[0]}": set(group) for group in groups}
    with first_free(names, directory) as name:
        yield names[name] if name else set(cores[:CORES])


def _threads() -> list[int]:
    return [int(thread) for thread in os.listdir("/proc/self/task")]


def _move(thread: int, cores: set[int]) -> set[int]:
    """Move a thread to ``cores``. Return the thread's previous cores, or an empty set if the thread has ended."""
    with suppress(OSError):
        before = os.sched_getaffinity(thread)
        os.sched_setaffinity(thread, cores)
        return before
    return set()
