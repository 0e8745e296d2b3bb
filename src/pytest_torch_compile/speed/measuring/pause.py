"""Pause the processes that share a device with a process that measures, until standard input ends.

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
from contextlib import suppress

# The content of a process's file while the process must not be paused, because it waits for its turn or measures.
NOT_NOW = b"not now"
POLL_SECONDS = 0.05


def living(prefix: str) -> dict[int, bool]:
    """Return the ids of the processes that have locked a file whose name is ``prefix`` and their id, and whether each
    process may be paused. Files of processes that have exited are removed.
    """
    found = {}
    for path in glob.glob(f"{glob.escape(prefix)}*"):
        with suppress(OSError):  # removed in the meantime, or owned by another user
            handle = os.open(path, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            except BlockingIOError:
                found[int(path[len(prefix) :])] = os.read(handle, len(NOT_NOW)) != NOT_NOW
            finally:
                os.close(handle)
    return found


def main(prefix: str) -> None:
    """Pause the processes, including those that start later. Print a line as soon as all of them are paused."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit())
    paused: set[int] = set()
    told = False
    try:
        while True:
            for process in (process for process, may_be_paused in living(prefix).items() if may_be_paused):
                with suppress(OSError):
                    os.kill(process, signal.SIGSTOP)
                    paused.add(process)
            if not told:
                told = True
                print(len(paused), flush=True)
            if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
                return
    finally:
        for process in paused:
            with suppress(OSError):
                os.kill(process, signal.SIGCONT)


if __name__ == "__main__":
    main(sys.argv[1])
