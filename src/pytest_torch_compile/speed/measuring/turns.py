"""Let processes compile for a device at the same time but measure one after another, and share the device's memory.
This module imports neither torch nor pytest.

Compiling takes much longer than measuring, and needs one core. But autotuning and the first calls of compiled code use
the device, and would distort another process's measurement. So a process that measures pauses (``SIGSTOP``) all other
processes of speed tests on the same device. Each of these processes has a locked file, which contains whether the
process may be paused, and how much memory its test needs.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from ... import events
from ...disk import machine_lock
from . import device

try:
    import fcntl

    from . import pause
except ImportError:  # Windows, which cannot pause a process: there, each device has only one process
    pause = None  # type: ignore[assignment]

WAIT_SECONDS = 1800.0
# How long kernels may still run that processes launched before they were paused.
SETTLE_SECONDS = 0.2
# An estimate, not a measurement, of the memory that a process needs in addition to its tensors: for the CUDA context
# and for library workspaces.
PROCESS_BYTES = 2 * 2**30
# The fraction of a device's memory that tests may reserve. The rest is lost to fragmentation.
USABLE = 0.9
POLL_SECONDS = 0.1
_files: dict[str, int] = {}
_states: dict[str, pause.State] = {}


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
    atexit.register(Path(path).unlink, missing_ok=True)
    _set(uuid, not device.is_held(uuid), 0)


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
        assert process.stdout
        if process.stdout.readline().strip() not in (b"", b"0"):  # the number of processes that are now paused
            time.sleep(SETTLE_SECONDS)
        yield
    finally:
        process.communicate()  # ends its standard input, and waits until it has resumed the others


def needed_by_test(memory: float) -> int:
    """Return the bytes that a speed test needs on the device if a leg of its measurement needs ``memory``: the test has
    its own model, and each of the two legs has a copy of the model.
    """
    return round(3 * memory)


@contextmanager
def memory_for_test(uuid: str, needed: int | None) -> Iterator[None]:
    """Wait until the tests that other processes run on the device leave enough memory for this process's test. Inside
    the ``with`` block, the memory is reserved.

    ``needed`` is the number of bytes that the test needs. If it is None, the number is unknown, so the test does not
    share the device with other tests.
    """
    total = next((row[1] for row in device.nvidia_smi("--query-gpu=uuid,memory.total") if row[0] == uuid), "")
    if uuid not in _files or not total.isdigit():
        yield
        return
    usable = round(int(total) * 2**20 * USABLE)
    needed = usable if needed is None else needed
    with events.doing("waiting for memory on the device"):
        while not _reserve(uuid, needed, usable):
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        _set(uuid, _states[uuid].may_be_paused, 0)


@contextmanager
def needing_only(uuid: str, needed: int) -> Iterator[None]:
    """Inside the ``with`` block, reserve only this much memory, because the test does not measure there. The processes
    that confirm the test's result need the rest.
    """
    before = _states[uuid].reserved if uuid in _files else 0
    if not before:
        yield
        return
    _set(uuid, _states[uuid].may_be_paused, min(needed, before))
    try:
        yield
    finally:
        _set(uuid, _states[uuid].may_be_paused, before)


def _reserve(uuid: str, needed: int, usable: int) -> bool:
    """Reserve memory if it is free. Return whether it was free."""
    with machine_lock(f"memory-{uuid}"):
        users = pause.living(_prefix(uuid))
        others = {process: state.reserved for process, state in users.items() if process != os.getpid()}
        # A test that does not fit may run beside the test that it confirms: if that is too much, waiting does not help.
        shares = any(reserved for process, reserved in others.items() if process != os.getppid())
        if shares and sum(others.values()) + needed > usable - PROCESS_BYTES * len(users):
            return False
        _set(uuid, _states[uuid].may_be_paused, needed)
        return True


def _set(uuid: str, may_be_paused: bool, reserved: int) -> None:
    """Write this process's state to its file."""
    _states[uuid] = pause.State(may_be_paused, reserved)
    content = _states[uuid].to_bytes()
    os.pwrite(_files[uuid], content, 0)
    os.ftruncate(_files[uuid], len(content))


def _allow_pause(uuid: str, allowed: bool) -> None:
    if uuid in _files:  # otherwise no other process can pause this one
        _set(uuid, allowed, _states[uuid].reserved)


def _prefix(uuid: str) -> str:
    """Return the path of the files of a device's processes, without the process ids at the end.

    Containers may share a temporary directory, but not process ids, so the path contains the namespace of the ids.
    """
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
        return str(Path(tempfile.gettempdir(), f"pytest-torch-compile-on-{uuid}-{namespace}-"))
    return str(Path(tempfile.gettempdir(), f"pytest-torch-compile-on-{uuid}-"))
