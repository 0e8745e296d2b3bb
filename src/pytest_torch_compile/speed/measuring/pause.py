"""Pause the processes that share a device with a process that measures, until there is input. A process that has not
used the device yet, for example because it is still importing modules, is not paused until it uses the device.

``turns`` runs this file as a script in a separate process: if the measuring process is killed, standard input ends, and
the paused processes continue. So this file imports only the standard library.
"""

from __future__ import annotations

import fcntl
import glob
import os
import select
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

POLL_SECONDS = 0.05
# After this time, the paused processes continue in any case: the measuring process may need something that one of them
# has locked.
MOST_SECONDS = 600.0


class Pausable(IntEnum):
    """When a process may be paused. It may never be paused while it waits for its turn or measures. While it compiles
    on the CPU, it does not disturb a measurement, which has cores of its own. But it may disturb the choices of another
    process's compilation: they are so short that a busy host changes their results.
    """

    NEVER = 0
    FOR_A_CHOICE = 1
    ALWAYS = 2


class State(NamedTuple):
    """The content of a process's file: when the process may be paused, and the bytes on the device that it has reserved
    for the test that it runs.
    """

    pausable: Pausable
    reserved: int

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        return b"%d %d" % self


def living(prefix: str) -> dict[int, State]:
    """Return the states of this user's processes that have locked a file whose name is ``prefix`` and their id, by
    their ids. Files of processes that have exited are removed.
    """
    found: dict[int, State] = {}
    for path in glob.glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError):  # removed in the meantime, or owned by another user
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid != os.getuid():
                    continue
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            except BlockingIOError:
                # The file is empty until the process has written it for the first time.
                pausable, reserved = os.read(handle, 100).split() or (0, 0)
                found[int(path[len(prefix) :])] = State(Pausable(int(pausable)), int(reserved))
            finally:
                os.close(handle)
    return found


def resume(processes: Iterable[int]) -> None:
    """Let paused processes continue."""
    for process in processes:
        with suppress(OSError):
            os.kill(process, signal.SIGCONT)


def has_open(process: int, file: str) -> bool:
    """Return whether the process has opened ``file``, or True if the system does not tell."""
    try:
        files = os.listdir(f"/proc/{process}/fd")
    except OSError:
        return True
    for number in files:
        with suppress(OSError):  # closed in the meantime
            if os.readlink(f"/proc/{process}/fd/{number}") == file:
                return True
    return False


def main(prefix: str, file: str, least: Pausable) -> None:
    """Pause the processes that are at least as pausable as ``least``, including those that start later. As soon as all
    of them are paused, print their number.

    If ``file`` is not empty, only processes that have opened ``file`` are paused.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit())
    paused: set[int] = set()
    end = time.monotonic() + MOST_SECONDS
    told = False
    try:
        while time.monotonic() < end:
            for process in (process for process, state in living(prefix).items() if state.pausable >= least):
                if file and process not in paused and not has_open(process, file):
                    continue
                with suppress(OSError):
                    os.kill(process, signal.SIGSTOP)
                    paused.add(process)
            if not told:
                told = True
                print(len(paused), flush=True)
            if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
                return
    finally:
        resume(paused)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Pausable(int(sys.argv[3])))
