"""Communication between ranks that torchrun or Slurm started. Each rank is a process that runs the same tests.

The ranks share a ``TCPStore``, which belongs to torchrun's agent or is opened by rank 0.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from ..findings import CompileUsageError

TOKEN = "PYTEST_TORCH_COMPILE_RANKS"
BEAT_SECONDS = 1.0
LOST_SECONDS = 15.0
# The maximum time between the starts of two ranks, whose machines may import torch at different speeds.
START_SECONDS = 120.0
_PREFIX = "pytest-torch-compile"
_NO_STORE = "the store that the ranks share is no longer available, so the launcher or rank 0 has exited"


@dataclass(frozen=True)
class Launch:
    """The settings with which a launcher (torchrun or Slurm) started this process. ``agent`` is true if torchrun's
    agent hosts the store.
    """

    rank: int
    world_size: int
    address: str
    port: int
    agent: bool


@cache
def launch() -> Launch | None:
    """Return the settings with which torchrun or Slurm started this process.

    Return None if no launcher started this process, if the launcher started only one process, or if the plugin started
    this process as a rank.
    """
    has = os.environ
    if TOKEN in has:
        return None
    if {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= has.keys():
        agent = has.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # with etcd, torchrun's agents do not share a store
        found = Launch(int(has["RANK"]), int(has["WORLD_SIZE"]), has["MASTER_ADDR"], int(has["MASTER_PORT"]), agent)
    elif {
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_NODELIST",
    } <= has.keys():  # SLURM_STEP_NODELIST is not set in the batch script itself
        rank, world_size = int(has["SLURM_PROCID"]), int(has["SLURM_STEP_NUM_TASKS"])
        # The first host of `node[03-07,12]`.
        first = re.sub(r"\[(\w+)[^\]]*\]", r"\1", has["SLURM_STEP_NODELIST"]).split(",")[0]
        # The same port on all ranks of a job, and usually another one for each job on the same machine.
        port = 20000 + int(has.get("SLURM_JOB_ID", "0")) % 20000
        found = Launch(rank, world_size, has.get("MASTER_ADDR", first), int(has.get("MASTER_PORT", port)), False)
    else:
        return None
    return found if found.world_size > 1 else None


def local_rank() -> int:
    """Return the rank of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK", os.environ.get("SLURM_LOCALID", 0)))


class Others:
    """The messages of the other ranks, and the state of these ranks (alive or lost). No method waits for a rank that
    has stopped.
    """

    def __init__(self, here: Launch, tell: Callable[[str], None]) -> None:
        self.here = here
        self.lost: dict[int, str] = {}
        self._tell = tell
        self._store = _connect(here, first=True)
        self._ending, self._stopped = threading.Event(), threading.Event()
        # Each rank's most recent heartbeat (empty at first), and the time at which it arrived.
        self._beats = dict.fromkeys(self._all(), (b"", time.monotonic()))
        self._watch = threading.Thread(target=self._keep_in_touch, daemon=True, name="rank watch")
        self._watch.start()
        atexit.register(self.close)  # a thread that uses the store when Python exits would abort the process

    def say(self, key: str, value: Any = None) -> None:
        """Store a message for the other ranks."""
        with self._or_lost():
            self._store.set(key, pickle.dumps(value))

    def heard(self, key: str) -> bool:
        """Return whether a message is stored under a key."""
        with self._or_lost():
            return bool(self._store.check([key]))
        return False

    def turn(self, name: str) -> str:
        """Return a new key for a call with this name. The key is the same on all ranks that make their calls in the
        same order.
        """
        with self._or_lost():
            return f"{name}/{self._store.add(f'{name}/{self.here.rank}', 1)}"
        return name

    def gather(self, key: str, ranks: range, seconds: float, *, after_tests: bool = False) -> dict[int, Any]:
        """Return the messages that ranks stored under ``key``, keyed by rank. Ranks that are lost or do not answer in
        time are omitted.

        By default, do not wait for messages from ranks that have finished their tests. If ``after_tests`` is set, wait
        for these messages as well.
        """
        values: dict[int, Any] = {}
        deadline = time.monotonic() + seconds
        over = False
        while not over and time.monotonic() < deadline:
            # Checked first, because a rank stores its message before it exits.
            over = all(r in values or r in self.lost or (self._has_finished(r) and not after_tests) for r in ranks)
            for rank in ranks:
                if rank not in values and self.heard(f"{key}/{rank}"):
                    with self._or_lost():
                        values[rank] = pickle.loads(self._store.get(f"{key}/{rank}"))
            time.sleep(0 if over else 0.02)
        return values

    def why_gone(self, rank: int, otherwise: str) -> str:
        """Return the reason why a rank does not answer."""
        if rank not in self.lost and self._has_finished(rank):
            return "has finished its tests: all ranks must run the same tests in the same order"
        return self.lost.get(rank, otherwise)

    def _has_finished(self, rank: int) -> bool:
        return rank != self.here.rank and self.heard(f"finished/{rank}")

    def leave(self, why: str) -> None:
        """Notify the other ranks that this rank is leaving."""
        self.say(f"left/{self.here.rank}", why)

    def finish(self, seconds: float = 60.0) -> None:
        """After this rank's last test, wait for the other ranks, because the store may stop when this process exits."""
        self._ending.set()
        self.say(f"finished/{self.here.rank}")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not all(r in self.lost or self._has_finished(r) for r in self._all()):
            time.sleep(0.05)

    def close(self) -> None:
        """Stop watching the other ranks."""
        self._stopped.set()
        self._watch.join()

    @contextlib.contextmanager
    def _or_lost(self) -> Iterator[None]:
        """If an operation on the store fails inside the ``with`` block, assume that the store no longer exists, and
        mark all ranks as lost.
        """
        try:
            yield
        except RuntimeError:
            self.lose_all(_NO_STORE)

    def lose_all(self, why: str) -> None:
        """Mark all other ranks as lost, so that nothing waits for them."""
        self._lose(self._all(), why)

    def _all(self) -> list[int]:
        return [rank for rank in range(self.here.world_size) if rank != self.here.rank]

    def _lose(self, ranks: list[int], why: str) -> None:
        new = [rank for rank in ranks if rank not in self.lost]
        self.lost |= dict.fromkeys(new, why)
        if new and not self._ending.is_set():
            self._tell(f"{'rank' if len(new) == 1 else 'ranks'} {', '.join(map(str, new))}: {why}")

    def _keep_in_touch(self) -> None:
        """In a separate thread, send this rank's heartbeats and check the heartbeats of the other ranks."""
        try:
            store, number = _connect(self.here), 0
            while not self._stopped.wait(BEAT_SECONDS):
                number += 1
                store.set(f"beat/{self.here.rank}", str(number))
                for rank in self._all():
                    if store.check([f"left/{rank}"]):
                        self._lose([rank], pickle.loads(store.get(f"left/{rank}")))
                    else:
                        self._listen(rank, store.get(f"beat/{rank}") if store.check([f"beat/{rank}"]) else b"")
        except RuntimeError:
            self.lose_all(_NO_STORE)

    def _listen(self, rank: int, beat: bytes) -> None:
        last, since = self._beats[rank]
        silent = time.monotonic() - since
        if beat != last:
            self._beats[rank] = beat, time.monotonic()
        elif not beat and silent > START_SECONDS:
            self._lose([rank], f"it did not start within {START_SECONDS:g} s after this rank started")
        elif beat and silent > LOST_SECONDS:
            self._lose(
                [rank], (f"nothing was received from it for {LOST_SECONDS:g} s: its process or its machine has stopped")
            )


def _connect(here: Launch, *, first: bool = False) -> Any:
    """Connect to the store. Raises RuntimeError if the store is unreachable."""
    from torch import distributed

    if here.agent:
        # The agent's store exists before any rank, so a refused connection means that the store no longer exists;
        # TCPStore would keep trying.
        try:
            socket.create_connection((here.address, here.port), LOST_SECONDS).close()
        except OSError as error:
            raise RuntimeError(f"{_NO_STORE} ({here.address}:{here.port}: {error})") from None
    store = distributed.TCPStore(
        here.address,
        here.port,
        here.world_size,
        is_master=first and here.rank == 0 and not here.agent,
        timeout=timedelta(seconds=START_SECONDS),
        wait_for_workers=False,
        multi_tenant=True,  # tests that join an `env://` group open the store again
    )
    # torchrun restarts all ranks after a failure, with their old messages still in the store.
    return distributed.PrefixStore(f"{_PREFIX} {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)


_others: Others | None = None


def others(tell: Callable[[str], None] = lambda line: None) -> Others | None:
    """Return the other ranks that a launcher started, or None if there is no launcher. ``tell`` is called with a
    message when ranks are lost.
    """
    global _others
    if _others is None and (here := launch()) is not None:
        if "PYTEST_XDIST_WORKER" in os.environ:
            raise CompileUsageError(
                "under a launcher, each rank runs all tests sequentially: remove pytest-xdist's -n option"
            )
        _others = Others(here, tell)
    return _others
