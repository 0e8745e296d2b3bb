"""``run_ranks``: run a function in several processes of one process group, and combine the failures of all ranks."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import time
import unittest
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import torch

from .. import settings
from .._torch.stuck import is_compiler, main_stack, place_of
from ..check.describe import target_name
from ..disk import TemporaryFolder
from ..events import announce
from ..findings import CompileUsageError
from ..observation import Location
from .divergence import SAME, require_known
from .failures import RankEnd, failed, findings_of, named, processes_with, skip_reason
from .launched import TOKEN, Others, launch, local_rank, others
from .progress import checks_in
from .rank import Job, Outcome, main
from .transport import pack, unpack_value, user_modules

# After one rank has failed, the other ranks have this many seconds to finish or fail.
GRACE_SECONDS = 5.0
# How long ranks that have finished may take to leave the process group.
_LEAVE_SECONDS = 30.0
_STACK_SECONDS = 2.0
_LOG_LINES = 60


def run_ranks(
    function: Callable[..., Any],
    world_size: int = 2,
    *args: Any,
    backend: str = "gloo",
    timeout: float = 120.0,
    same: Collection[str] = tuple(SAME),
) -> list[Any]:
    """Run ``function(*args)`` in ``world_size`` fresh processes, which are the ranks of one process group.

    Each rank joins the default process group before the function starts, and leaves the group after the function ends;
    under NCCL, rank n uses CUDA device n. ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``
    are set; Fabric, Accelerate and other libraries use these variables to detect that a launcher started the process.
    The plugin's options apply in the ranks as well. The ranks' output is printed in this process with the rank number,
    and checks and ``compile_guard`` regions in the ranks are part of this test's report. All rank processes have
    exited by the time ``run_ranks`` returns or raises an exception, even if the call is interrupted.

    Args:
        function: a top-level function of a module, test module or script. A nested function or a lambda needs
            cloudpickle: ``pip install 'pytest-torch-compile[ranks]'``.
        world_size: the number of ranks.
        *args: picklable arguments, the same for each rank.
        backend: the backend of the process group: ``"gloo"``, ``"nccl"`` or another backend that torch supports.
        timeout: the time limit in seconds, after which all ranks are terminated.
        same: the quantities that must be the same on all ranks that run a check: ``"graph_breaks"``, ``"recompiles"``,
            ``"fallbacks"``, ``"collectives"`` (order, group and size), ``"graphs"`` (their ops) and ``"end"`` (no rank
            returns while other ranks wait). A difference is reported as a ``rank-divergence`` finding. Use ``()`` if
            the ranks differ on purpose.

    Returns:
        The results in the order of the ranks; tensors are on the CPU.

    Raises:
        CompileCheckFailed: If ranks failed a check, raised an exception, died or did not finish in time. There is one
            failure for all ranks, in which each finding is listed once, with the affected ranks.
        CompileUsageError: If the function or an argument cannot be sent to the ranks, or, under NCCL, there are fewer
            CUDA devices than ranks.
        SkipTest: If a rank called ``pytest.skip()``, and no other rank failed.
    """
    __tracebackhide__ = True
    with RankGroup(world_size, backend=backend, timeout=timeout, same=same) as group:
        return group.run(function, *args)


@dataclass
class _Rank:
    """A running rank. ``outcome`` is the outcome of the rank's most recent job, or None while the job runs."""

    number: int
    process: SpawnProcess
    connection: Connection
    log: IO[str]
    stack_file: Path
    outcome: Outcome | None = None

    def hear(self, job: Job) -> None:
        """If the rank has sent a message, receive it. The message is the outcome of a job or a request for a job. If
        the message is a request, send ``job`` to the rank.
        """
        with contextlib.suppress(EOFError, OSError):  # the rank has exited
            if self.connection.poll():
                self.outcome = self.connection.recv()
                if self.outcome is None:
                    self.connection.send(job)


class RankGroup:
    """Ranks that are started once and used for several calls to ``run``, because starting ranks takes seconds. To share
    a ``RankGroup`` between tests, create it in a module-scoped fixture.

    The ranks start when ``run`` is called for the first time. Compiled code is discarded between calls; other
    state of the processes is kept. After a failure, the ranks join a new process group; if a rank died or hung, all
    ranks are replaced.

    Args:
        world_size, backend, timeout, same: as in ``run_ranks``; ``timeout`` applies to each call.
        environment: additional environment variables for the ranks.
    """

    def __init__(
        self,
        world_size: int = 2,
        *,
        backend: str = "gloo",
        timeout: float = 120.0,
        environment: Mapping[str, str] | None = None,
        same: Collection[str] = tuple(SAME),
    ) -> None:
        require_known(same)
        if world_size < 1:
            raise CompileUsageError(f"world_size={world_size}: must be at least 1")
        self.world_size = world_size
        self.backend = backend
        self.timeout = timeout
        self.same = same
        self._environment = dict(environment or {})
        self._folder: TemporaryFolder | None = None
        self._ranks: list[_Rank] = []
        self._store: Any = None
        self._jobs = 0
        self._seen = Path()
        self._failed = False
        self._needs_main = False

    def __enter__(self) -> RankGroup:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        timeout: float | None = None,
        same: Collection[str] | None = None,
        **kwargs: Any,
    ) -> list[Any]:
        """Run ``function(*args, **kwargs)`` on each rank. Returns the same results and raises the same exceptions as
        ``run_ranks``.

        ``timeout`` and ``same`` override the group's values for this call.
        """
        __tracebackhide__ = True
        require_known(self.same if same is None else same)
        payload = pack(function, args, kwargs)
        self._needs_main = getattr(function, "__module__", "") == "__main__"
        limit = self.timeout if timeout is None else timeout
        launched = others()
        try:
            if launched is None:
                ends = self._carry_out(payload, f"{id(self)}-{self._jobs}", limit)
            else:
                ends = self._with_others(launched, payload, target_name(function), limit)
        except BaseException:
            self._kill()
            raise
        findings = findings_of(ends, self.same if same is None else same, limit)
        outcomes = [end.outcome for end in ends if end.outcome is not None]
        self._failed = bool(findings)
        for end in ends:
            _show(end.rank, end.log)
        if len(outcomes) < self.world_size:
            self._kill()
        for outcome in outcomes:
            for report in outcome.reports:
                announce(replace(report, target=f"{report.target} (rank {outcome.rank})"))
        if (reason := skip_reason(ends)) is not None:
            raise unittest.SkipTest(reason)
        if findings:
            raise failed(target_name(function), self.world_size, findings, outcomes)
        return [unpack_value(outcome.value) for outcome in outcomes if outcome.value is not None]

    def close(self) -> None:
        """Make the ranks leave their process group and exit, and remove their files."""
        for rank in self._ranks:
            with contextlib.suppress(OSError):  # the rank has already exited
                rank.connection.send(None)
        deadline = time.monotonic() + _LEAVE_SECONDS
        try:
            for rank in self._ranks:
                rank.process.join(max(0.1, deadline - time.monotonic()))
                if rank.process.is_alive():
                    message = f"rank {rank.number} was terminated: it did not exit within {_LEAVE_SECONDS:g} s"
                    warnings.warn(message, stacklevel=2)
        finally:
            self._kill()

    def _with_others(self, launched: Others, payload: bytes, name: str, limit: float) -> list[RankEnd]:
        """Under a launcher, run one rank here, and receive the outcomes of the ranks that run in the launcher's other
        processes.
        """
        here, ranks = launched.here, range(self.world_size)
        if here.world_size < self.world_size:
            raise CompileUsageError(
                f"{self.world_size} ranks are required, but the launcher started only {here.world_size}"
            )
        turn = launched.turn(f"{os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' ')[0]} {name}")
        launched.say(f"{turn}/comes/{here.rank}")
        come = launched.gather(f"{turn}/comes", ranks, limit)
        if len(come) < self.world_size:
            late = f"did not reach {name} within {limit:g} s: all ranks must run the same tests in the same order"
            return [RankEnd(r, Outcome(r) if r in come else None, lost=launched.why_gone(r, late)) for r in ranks]
        if here.rank in ranks:
            failed = f"{turn}/failed"
            (own,) = self._carry_out(payload, turn, limit, lambda: bool(launched.lost) or launched.heard(failed))
            if own.outcome is None or own.outcome.value is None:
                launched.say(failed)
            launched.say(f"{turn}/ends/{here.rank}", own)
        ends = launched.gather(f"{turn}/ends", ranks, limit + GRACE_SECONDS + _LEAVE_SECONDS)
        late = "its process did not report a result"
        return [ends[r] if r in ends else RankEnd(r, None, lost=launched.why_gone(r, late)) for r in ranks]

    def _carry_out(
        self, payload: bytes, store: str, limit: float, failed: Callable[[], bool] = lambda: False
    ) -> list[RankEnd]:
        self._ask(self._folder.path if self._folder else self._start(), payload, store, limit, failed)
        return self._ends()

    def _start(self) -> Path:
        one = launch()
        numbers = range(self.world_size) if one is None else [one.rank]
        last = self.world_size - 1 if one is None else local_rank()
        if "nccl" in self.backend and (devices := torch.cuda.device_count()) <= last:
            raise CompileUsageError(
                f"backend 'nccl' needs one CUDA device per rank: {last + 1} are required on this machine, but it has "
                f"only {devices}; use backend='gloo', or fewer ranks"
            )
        atexit.register(self._kill)  # otherwise multiprocessing would wait for the ranks at exit
        self._folder = TemporaryFolder("torch-compile-ranks-")
        folder = self._folder.path
        # Start the resource tracker now: it outlives the ranks and must not inherit their environment variables.
        resource_tracker.ensure_running()
        context = multiprocessing.get_context("spawn")
        before, variables = os.environ.copy(), self._variables(folder)
        main_module = sys.modules["__main__"]
        if not self._needs_main:
            # Spawning imports the main script in each process; a script that does not check ``__name__`` would start
            # the tests again.
            sys.modules["__main__"] = ModuleType("__main__")
        try:
            for number in numbers:
                local = number if one is None else local_rank()
                # The variables must be set before the rank imports anything.
                os.environ.update(variables | {"RANK": str(number), "LOCAL_RANK": str(local)})
                here, there = context.Pipe()
                log_file, stack_file = folder / f"log-{number}", folder / f"stack-{number}"
                log = log_file.open("w+", encoding="utf-8", errors="replace")
                process = context.Process(target=main, args=(number, log_file, stack_file, there))
                process.start()
                there.close()
                self._ranks.append(_Rank(number, process, here, log, stack_file))
        finally:
            sys.modules["__main__"] = main_module
            for name in (*variables, "RANK", "LOCAL_RANK"):
                os.environ.pop(name, None)
                os.environ.update({name: before[name]} if name in before else {})
        return folder

    def _variables(self, folder: Path) -> dict[str, str]:
        threads = str(max(1, (os.cpu_count() or 1) // self.world_size))
        defaults = {"OMP_NUM_THREADS": threads, "TORCHELASTIC_RESTART_COUNT": "0"}
        # TORCHELASTIC_USE_AGENT_STORE makes the ranks connect to the existing store instead of opening one.
        world = {"WORLD_SIZE": str(self.world_size), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        if (here := launch()) is None:
            self._store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
            world |= {"LOCAL_WORLD_SIZE": str(self.world_size)}
            address, port = "127.0.0.1", self._store.port
        else:
            address, port = here.address, here.port
        if address in ("127.0.0.1", "localhost"):  # all ranks are on this machine
            defaults["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        master = {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
        missing = {name: value for name, value in defaults.items() if name not in os.environ}
        return {**missing, **world, **master, TOKEN: str(folder), **self._environment}

    def _ask(self, folder: Path, payload: bytes, store: str, limit: float, failed: Callable[[], bool]) -> None:
        """Run the call on all ranks, and wait until all have finished, the time limit is reached, or ``GRACE_SECONDS``
        have passed since the first failure.
        """
        deadline = time.monotonic() + limit
        self._jobs += 1
        self._seen = folder / f"seen-{self._jobs}"
        self._seen.mkdir()
        job = Job(payload, user_modules(), settings.current, self.backend, store, self._seen, self._failed)
        for rank in self._ranks:
            rank.outcome = None
        waiting = self._ranks
        while waiting and time.monotonic() < deadline:
            wait([rank.connection for rank in waiting], timeout=0.1)
            ended = [
                rank for rank in waiting if not rank.process.is_alive()
            ]  # checked first, because a rank may send its outcome and then exit
            for rank in waiting:
                rank.hear(job)
            waiting = [rank for rank in waiting if rank.outcome is None and rank not in ended]
            outcomes = [rank.outcome for rank in self._ranks if rank not in waiting]
            if failed() or any(outcome is None or outcome.value is None for outcome in outcomes):
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)

    def _ends(self) -> list[RankEnd]:
        """Return how each rank's call ended. A rank that has no outcome has died or is about to be terminated."""
        silent = [rank for rank in self._ranks if rank.outcome is None]
        for rank in silent:
            if rank.process.exitcode is None and rank.process.pid:
                os.kill(rank.process.pid, signal.SIGUSR1)  # a rank writes its stacks even if it hangs
        deadline = time.monotonic() + _STACK_SECONDS
        stacks: dict[int, list[Location]] = {}
        while time.monotonic() < deadline:
            before, stacks = stacks, {rank.number: main_stack(rank.stack_file) for rank in silent}
            if stacks == before and all(stacks[rank.number] or rank.process.exitcode is not None for rank in silent):
                break  # read until two reads are equal, so that no stack is half written
            time.sleep(0.1)
        return [
            RankEnd(
                rank.number,
                rank.outcome,
                rank.process.exitcode if rank.outcome is None else None,
                place_of(stacks.get(rank.number, [])),
                any(is_compiler(frame.file) for frame in stacks.get(rank.number, [])),
                checks_in(self._seen / str(rank.number)),
                log=rank.log.read().splitlines()[-_LOG_LINES:],
            )
            for rank in self._ranks
        ]

    def _kill(self) -> None:
        """Terminate the ranks and their child processes, and remove their folder."""
        if self._folder is None:
            return
        for rank in self._ranks:
            if rank.process.pid and rank.process.is_alive():
                with contextlib.suppress(ProcessLookupError):  # a rank that has just started has no process group yet
                    os.killpg(rank.process.pid, signal.SIGKILL)
                rank.process.kill()
            rank.process.join()
        for pid in processes_with(f"{TOKEN}={self._folder.path}"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for rank in self._ranks:
            _show(rank.number, rank.log.read().splitlines()[-_LOG_LINES:])
            rank.connection.close()
            rank.log.close()
        self._folder.remove()
        self._folder, self._ranks, self._store = None, [], None
        atexit.unregister(self._kill)


def _show(rank: int, log: Sequence[str]) -> None:
    for line in log:
        print(f"[{named([rank])}] {line}")
