"""Let processes compile for a device at the same time but measure one after another. This module imports neither torch
nor pytest.

Compiling takes much longer than measuring, and needs one core. But autotuning and the first calls of compiled code use
the device, and would distort another process's measurement. So a process that measures pauses (``SIGSTOP``) all other
processes of speed tests on the same device. Each of these processes has a locked file, which contains whether the
process may be paused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from ... import events
from . import device

try:
    import fcntl

    from . import pause
except ImportError:  # Windows, which cannot pause a process: there, each device has only one process
    pause = None  # type: ignore[assignment]

WAIT_SECONDS = 1800.0
# How long kernels may still run that processes launched before they were paused.
SETTLE_SECONDS = 0.2
_files: dict[str, int] = {}


def register(uuid: str) -> None:
    """From now on, pause this process whenever another process measures on the device.

    A process that was started by a process that measures is not paused: the two take the same turn.
    """
    if pause is None or uuid in _files:
        return
    path = f"{_prefix(uuid)}{os.getpid()}"
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(path):  # otherwise another process removed the file before it was locked
            break
        os.close(handle)
    _files[uuid] = handle
    _allow_pause(uuid, not device.is_held(uuid))


def users(uuid: str) -> int:
    """Return how many processes of speed tests, including this process, may be using the device."""
    return 1 if pause is None else len(pause.living(_prefix(uuid)).keys() | {os.getpid()})


@contextmanager
def measuring(uuid: str, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Wait for this process's turn to measure. Inside the ``with`` block, the device is reserved for this process, and
    the other processes that are registered for the device are paused.

    Raises:
        DeviceBusy: If this process's turn did not come within ``wait`` seconds.
    """
    if device.is_held(uuid):
        yield
        return
    _allow_pause(uuid, False)
    try:
        with ExitStack() as turn:
            with events.doing("waiting for its turn to measure"):
                turn.enter_context(device.device_lock(uuid, wait=wait))
            with _others_paused(uuid) if pause else nullcontext():
                yield
    finally:
        _allow_pause(uuid, True)


@contextmanager
def _others_paused(uuid: str) -> Iterator[None]:
    command = [sys.executable, "-I", "-S", pause.__file__, _prefix(uuid)]
    # In a session of its own, so that a signal to this process's group does not kill it before it resumes the others.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout and process.stdin
        if int(process.stdout.readline()):
            time.sleep(SETTLE_SECONDS)
        yield
    finally:
        process.communicate()  # ends its standard input, and waits until it has resumed the others


def _allow_pause(uuid: str, allowed: bool) -> None:
    if (handle := _files.get(uuid)) is not None:
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"" if allowed else pause.NOT_NOW, 0)


def _prefix(uuid: str) -> str:
    """Return the path of the files of a device's processes, without the process ids at the end.

    Containers may share a temporary directory, but not process ids, so the path contains the namespace of the ids.
    """
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
        return str(Path(tempfile.gettempdir(), f"pytest-torch-compile-on-{uuid}-{namespace}-"))
    return str(Path(tempfile.gettempdir(), f"pytest-torch-compile-on-{uuid}-"))
