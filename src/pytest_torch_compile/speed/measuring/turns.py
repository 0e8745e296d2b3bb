"""Let processes compile for a device at the same time but measure one after another, and share the device's memory.
This module imports neither torch nor pytest.

Compiling takes much longer than measuring, and needs one core. But autotuning and the first calls of compiled code use
the device, and would distort another process's measurement. So a process that measures pauses (``SIGSTOP``) the other
processes of speed tests that can be paused: pytest-xdist workers, and processes that confirm a change. A process that
compiles on the CPU continues, and waits before it uses the device again. Each process has a locked file, which says
when the process may be paused, and how much memory its test needs. A session without workers cannot be paused, because
a shell would notice. It compiles and measures in the same turn.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from ... import events
from ...disk import is_locked, machine_lock
from . import cores, device

try:
    import fcntl

    from . import pause
except ImportError:  # Windows, which cannot pause a process: there, each device has only one process
    pause = None  # type: ignore[assignment]

WAIT_SECONDS = 1800.0
# How long kernels may still run that processes launched before they were paused. A measurement takes seconds, so it can
# wait longer than the timing of one choice, of which there are several in each compilation.
SETTLE_SECONDS, SETTLE_SECONDS_OF_A_CHOICE = 0.2, 0.05
# After a measurement, how long the paused processes may use the device before the next measurement. Otherwise, they
# would hardly get further while many processes wait to measure.
SHARED_SECONDS = 1.0
# A process that has a CUDA context has this file open. Other processes, for example those that still import modules,
# cannot use the device, so they are not paused.
CUDA_FILE = "/dev/nvidia-uvm"
# An estimate, not a measurement, of the memory that a process needs in addition to its tensors: for the CUDA context
# and for library workspaces.
PROCESS_BYTES = 2 * 2**30
# The fraction of a device's memory that tests may reserve. The rest is lost to fragmentation.
USABLE = 0.9
POLL_SECONDS = 0.1
# Shorter than the time in which a waiting process tries to reserve the device again.
RETRY_SECONDS = 0.01
# How many processes confirm a change of a worker's test at the same time. With 10 to 14 stored runs, four additional
# compilations can confirm a slowdown. More would often be started in vain: when seven processes were started at once
# for a test, 9 of the 29 that were not cut off were ended before they had measured.
MOST_AT_ONCE = 4
_files: dict[str, int] = {}
_pausable: set[str] = set()
_urgent: set[str] = set()
_states: dict[str, pause.State] = {}
_usable: dict[str, int] = {}  # how many bytes tests may reserve
_changing = threading.RLock()  # threads that confirm a change reserve memory


def register(uuid: str, *, pausable: bool, urgent: bool = False) -> None:
    """Record that this process uses the device. If ``pausable`` is set, other processes may pause this process while
    they measure on the device. A process must be pausable for one device only. If ``urgent`` is set, this process tries
    more often than others to get its turn.

    A process that was started by a process that measures is not paused: the two take the same turn.
    """
    if pause is None or uuid in _files:
        return
    if pausable and not device.is_held(uuid):
        _pausable.add(uuid)
    if urgent:
        _urgent.add(uuid)
    path = f"{_prefix(uuid)}{os.getpid()}"
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(path):  # otherwise another process removed the file before it was locked
            break
        os.close(handle)
    _files[uuid] = handle
    atexit.register(_remove, path, os.getpid())
    os.register_at_fork(after_in_child=_forget)
    _set(uuid, pausable=pause.Pausable.ALWAYS if uuid in _pausable else pause.Pausable.NEVER, reserved=0)


def _remove(path: str, process: int) -> None:
    if process == os.getpid():  # not in a process that was forked from this one
        Path(path).unlink(missing_ok=True)


def _forget() -> None:
    """Close the files in a forked process. An open file would stay locked after the registered process has exited."""
    for handle in _files.values():
        os.close(handle)
    _files.clear()
    _pausable.clear()
    _urgent.clear()


def can_be_paused(uuid: str) -> bool:
    """Return whether other processes may pause this process while they measure on the device."""
    return uuid in _pausable


def users(uuid: str) -> int:
    """Return how many processes of speed tests, including this process, may be using the device."""
    return 1 if pause is None else len(pause.living(_prefix(uuid)).keys() | {os.getpid()})


@contextmanager
def measuring(uuid: str, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Wait for this process's turn to measure. Inside the ``with`` block, the device is reserved for this process, and
    the other processes that are registered for the device and have used it are paused, unless they compile on the CPU.
    The block starts after the paused processes' last kernels have finished.

    Raises:
        DeviceBusy: If this process's turn did not come within ``wait`` seconds.
    """
    with _turn(uuid, wait, choice=False):
        yield


@contextmanager
def choosing(uuid: str) -> Iterator[None]:
    """Like ``measuring``, for the short timing of one choice while compiling. If this process's turn does not come,
    continue without a turn. Processes that compile on the CPU are also paused.
    """
    with ExitStack() as turn:
        with suppress(device.DeviceBusy):
            turn.enter_context(_turn(uuid, WAIT_SECONDS, choice=True))
        if cores.are_free():  # processes that import modules are not paused
            turn.enter_context(cores.own_cores())
        yield


@contextmanager
def _turn(uuid: str, wait: float, *, choice: bool) -> Iterator[None]:
    if device.is_held(uuid):
        yield
        return
    before = _states[uuid].pausable if uuid in _pausable else None
    if before is not None:
        _set(uuid, pausable=pause.Pausable.NEVER)
    try:
        with ExitStack() as turn:
            with events.doing("waiting for its turn to measure"):
                retry = RETRY_SECONDS if uuid in _urgent else device.RETRY_SECONDS
                turn.enter_context(device.device_lock(uuid, wait=wait, retry=retry))
            with _others_paused(uuid, choice) if pause else nullcontext(False) as paused:
                yield
            if paused and not choice:
                time.sleep(SHARED_SECONDS)
    finally:
        if before is not None:
            _set(uuid, pausable=before)


def stop_using(uuid: str) -> None:
    """Record that this process does not use the device until it calls ``use_again``. Until then, processes that measure
    do not pause this process.
    """
    if uuid in _pausable and not device.is_held(uuid):
        _set(uuid, pausable=pause.Pausable.FOR_A_CHOICE)


def use_again(uuid: str) -> None:
    """Wait until no other process measures on the device, and record that this process uses the device again."""
    if uuid not in _pausable or device.is_held(uuid):
        return
    _set(uuid, pausable=pause.Pausable.ALWAYS)
    end = time.monotonic() + pause.MOST_SECONDS  # as for a paused process
    while is_locked(_pausing(uuid)) and time.monotonic() < end:  # the process that measures pauses this process here
        time.sleep(RETRY_SECONDS)


def _pausing(uuid: str) -> str:
    """Return the name of the lock that a process holds while it pauses others."""
    return f"pausing-{uuid}"


@contextmanager
def _others_paused(uuid: str, choice: bool) -> Iterator[bool]:
    """Inside the ``with`` block, the other processes are paused. Yield whether there are any."""
    file = CUDA_FILE if uuid.startswith("GPU-") and os.path.exists(CUDA_FILE) else ""
    least = pause.Pausable.FOR_A_CHOICE if choice else pause.Pausable.ALWAYS
    command = [sys.executable, "-I", "-S", pause.__file__, _prefix(uuid), file, str(int(least))]
    with machine_lock(_pausing(uuid)):
        # In a session of its own, so that a signal to this process's group does not kill it before it resumes the
        # others.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert process.stdout
            # The number of processes that are now paused.
            if paused := process.stdout.readline().strip() not in (b"", b"0"):
                time.sleep(SETTLE_SECONDS_OF_A_CHOICE if choice else SETTLE_SECONDS)
            yield paused
        finally:
            process.communicate(b"\n")  # closing the input is not enough: a forked process may have it open, too
            if process.returncode:  # it was killed
                pause.resume(pause.living(_prefix(uuid)))


def needed_by_test(memory: float) -> int:
    """Return the bytes that a speed test needs on the device if a leg of its measurement needs ``memory``.

    The test has its own model, and each of the two legs has a copy of the model. To confirm a change, at least one
    process, which needs the same memory, runs beside the test's own model (``more_memory``). An eager leg may need
    more than ``memory``: up to 1.7 times as much in 37 tests of this repository.
    """
    return round((1 + 3) * memory)


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
    _usable[uuid] = round(int(total) * 2**20 * USABLE)
    with events.doing("waiting for memory on the device"):
        while not _reserve(uuid, _usable[uuid] if needed is None else needed):
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        _set(uuid, reserved=0)


@contextmanager
def more_memory(uuid: str, needed: int) -> Iterator[bool]:
    """Reserve ``needed`` more bytes for this process's test. Yield whether they were free. A test that does not share
    the device needs no reservation.
    """
    shares = uuid in _usable and _states[uuid].reserved < _usable[uuid]
    reserved = not shares or _reserve(uuid, needed)
    try:
        yield reserved
    finally:
        if shares and reserved:
            _add_reserved(uuid, -needed)


def _reserve(uuid: str, needed: int) -> bool:
    """Reserve more memory if it is free. Return whether it was free."""
    with ExitStack() as locked:
        with suppress(PermissionError):  # the lock belongs to another user of this machine
            locked.enter_context(machine_lock(f"memory-{uuid}"))
        processes = pause.living(_prefix(uuid))
        others = sum(state.reserved for process, state in processes.items() if process != os.getpid())
        reserved = others + _states[uuid].reserved
        # A test that needs more than there is runs alone.
        if reserved and reserved + needed > _usable[uuid] - PROCESS_BYTES * len(processes):
            return False
        _add_reserved(uuid, needed)
    return True


def _add_reserved(uuid: str, number: int) -> None:
    with _changing:
        _set(uuid, reserved=_states[uuid].reserved + number)


def _set(uuid: str, *, pausable: pause.Pausable | None = None, reserved: int | None = None) -> None:
    """Write this process's state to its file. None leaves a part of the state unchanged."""
    with _changing:
        before = _states.get(uuid, pause.State(pause.Pausable.NEVER, 0))
        _states[uuid] = pause.State(
            before.pausable if pausable is None else pausable, before.reserved if reserved is None else reserved
        )
        content = _states[uuid].to_bytes()
        os.pwrite(_files[uuid], content, 0)
        os.ftruncate(_files[uuid], len(content))


def _prefix(uuid: str) -> str:
    """Return the path of the files of a device's processes, without the process ids at the end.

    Containers may share a temporary directory, but not process ids, so the path contains the namespace of the ids.
    """
    namespace = ""
    with suppress(OSError):
        namespace = f"{os.readlink('/proc/self/ns/pid').strip('pid:[]')}-"
    return str(Path(tempfile.gettempdir(), f"pytest-torch-compile-{os.getuid()}-on-{uuid}-{namespace}"))
