"""Make fresh processes compile at the same time and measure one after another. This module imports neither torch nor
pytest.

The parent process creates a folder that its child processes share. After compilation, each child process writes a file
to this folder. When all child processes have written their files, the parent writes the file ``go``, and the child
processes then measure in turn on each device. So no process compiles while another process measures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

TURNS = "PYTEST_TORCH_COMPILE_TURNS"
POLL_SECONDS = 0.05


@contextmanager
def turn() -> Iterator[None]:
    """Wait for this process's turn to measure. Inside the ``with`` block, no other process that shares the folder
    measures on the same device. If the parent process created no folder, this process does not wait.
    """
    if not (path := os.environ.get(TURNS)):
        yield
        return
    lock = Path(path)
    lock.with_name(f"ready-{os.getpid()}").touch()
    while not lock.with_name("go").exists():
        time.sleep(POLL_SECONDS)
    with FileLock(lock, poll_interval=POLL_SECONDS):
        yield


def environment(folder: Path, device: str) -> dict[str, str | None]:
    """Return the environment variables for a process that measures on ``device`` and shares ``folder`` with the other
    processes.
    """
    return {TURNS: str(folder / f"{device}.lock")}


def begin_if_ready(folder: Path, processes: int) -> None:
    """Let the processes that share ``folder`` start measuring if ``processes`` of them have compiled."""
    if len(list(folder.glob("ready-*"))) >= processes:
        (folder / "go").touch()
