"""Cores of its own for a process that times: neither torch nor pytest.

A process that wanders over all cores was 1 to 4 % slower from its second test on, and less steady. And where one
machine has several devices, two gates must not use the same cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import Timeout

from ...disk import machine_lock

CORES = 4


@contextmanager
def own_cores(directory: Path | None = None) -> Iterator[None]:
    """Keep the threads of this process on a few cores that no other timing process holds, as long as the body runs."""
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
    """Cores from the last ones down, locked; the last ones where all are held."""
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    for start in range(0, len(cores) - CORES + 1, CORES):
        group = cores[start : start + CORES]
        lock = machine_lock(f"cores-{group[-1]}-{group[0]}", directory)
        try:
            lock.acquire(blocking=False)
        except (Timeout, PermissionError):  # another process has these cores, or another user's file cannot be opened
            continue
        try:
            yield set(group)
        finally:
            lock.release()
        return
    yield set(cores[:CORES])


def _threads() -> list[int]:
    return [int(thread) for thread in os.listdir("/proc/self/task")]


def _move(thread: int, cores: set[int]) -> set[int]:
    """Move a thread; returns where it was, or nothing where it has ended."""
    with suppress(OSError):
        before = os.sched_getaffinity(thread)
        os.sched_setaffinity(thread, cores)
        return before
    return set()
