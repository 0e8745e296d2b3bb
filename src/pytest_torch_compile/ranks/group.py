"""run_ranks: run a function in several processes of one process group, with one failure for all of them."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ..check.describe import target_name
from ..events import announce
from ..findings import CompileUsageError, Finding
from ..observation import Location
from .failures import alive_of, died, failed, hung, main_stack, merged, named, still_there
from .worker import END, Job, Outcome, job_file, outcome_file, stack_file

TOKEN = "PYTEST_TORCH_COMPILE_RANKS"
GRACE_SECONDS = 5.0
_LEAVE_SECONDS = 30.0
_LOG_LINES = 60
_START = (
    "import sys; sys.path[:] = {path!r}; from pytest_torch_compile.ranks.worker import main; main({folder!r}, {rank})"
)


def run_ranks(
    function: Callable[..., Any], world_size: int = 2, *args: Any, backend: str = "gloo", timeout: float = 120.0
) -> list[Any]:
    """Run ``function(*args)`` in ``world_size`` fresh processes that are the ranks of one process group.

    Each rank has joined the default process group when the function starts and leaves it when it ends; under NCCL, rank
    n has CUDA device n. ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT`` are set, so that
    Fabric, Accelerate and others find themselves launched. What ranks print is printed here, with their number; what
    ``check_compile`` and ``compile_guard`` see there stands in this test's report. No process is left behind, however
    the call ends.

    Args:
        function: a function that stands at the top of a module, also of a test module or script.
        world_size: the number of ranks.
        *args: picklable arguments, the same for each rank.
        backend: of the process group: ``"gloo"``, ``"nccl"`` or any other that torch knows.
        timeout: seconds from start to end, after which all ranks are ended.

    Returns:
        What each rank returned, by rank; tensors are on the CPU.

    Raises:
        CompileCheckFailed: ranks failed a check, raised, died or did not end in time. One failure for all of them: a
            finding that several ranks have is told once and names them.
        CompileUsageError: a function or argument that cannot be sent, or fewer devices than ranks.
    """
    __tracebackhide__ = True
    with RankGroup(world_size, backend=backend, timeout=timeout) as group:
        return group.run(function, *args)


class RankGroup:
    """Ranks that stay for several calls of ``run``, since starting them takes seconds: a fixture of a test module.

    They start at the first call. What was compiled in one call is forgotten before the next; other state of their
    processes stays. After a failure they join a new process group, and where a rank died or hung, all are started anew.

    Args:
        world_size, backend, timeout: as for ``run_ranks``; ``timeout`` is that of each call.
        environment: variables of the ranks' processes, beside those of this one.
    """

    def __init__(
        self,
        world_size: int = 2,
        *,
        backend: str = "gloo",
        timeout: float = 120.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if world_size < 1:
            raise CompileUsageError(f"world_size={world_size}: at least one rank is needed")
        self.world_size = world_size
        self.backend = backend
        self.timeout = timeout
        self._environment = dict(environment or {})
        self._folder: Path | None = None
        self._ranks: list[subprocess.Popen[str]] = []
        self._read = [0] * world_size
        self._jobs = 0
        self._failed = False

    def __enter__(self) -> RankGroup:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, function: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Run ``function(*args, **kwargs)`` on each rank; returns and raises as ``run_ranks``."""
        __tracebackhide__ = True
        job = replace(packed(function, args, kwargs, self.backend), rejoin=self._failed)
        limit = self.timeout if timeout is None else timeout
        try:
            folder = self._started()
            outcomes, codes = self._ask(folder, job, limit)
            findings = self._judged(folder, outcomes, codes, limit)
        except BaseException:
            self._kill()
            raise
        self._failed = bool(findings)
        if len(outcomes) < self.world_size:
            self._kill()
        self._show_logs()
        for outcome in outcomes:
            for report in outcome.reports:
                announce(replace(report, target=f"{report.target} (rank {outcome.rank})"))
        if findings:
            raise failed(target_name(function), self.world_size, findings, outcomes)
        return [_unpacked(outcome.value) for outcome in outcomes]

    def close(self) -> None:
        """End the ranks, which leave their process group first, and remove what they wrote."""
        for rank in self._ranks:
            _say(rank, END)
        deadline = time.monotonic() + _LEAVE_SECONDS
        try:
            for number, rank in enumerate(self._ranks):
                try:
                    rank.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    warnings.warn(f"rank {number} was ended: it took over {_LEAVE_SECONDS:g} s to leave", stacklevel=2)
        finally:
            self._kill()

    def _started(self) -> Path:
        if self._folder is None:
            self._require_devices()
            self._folder = Path(tempfile.mkdtemp(prefix="torch-compile-ranks-"))
            self._read = [0] * self.world_size
            common = self._variables(self._folder)
            for rank in range(self.world_size):
                self._ranks.append(_start(self._folder, rank, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        return self._folder

    def _require_devices(self) -> None:
        if "nccl" not in self.backend:
            return
        import torch

        if torch.cuda.device_count() < self.world_size:
            raise CompileUsageError(
                f"backend 'nccl' takes one CUDA device for each of {self.world_size} ranks, and this machine has "
                f"{torch.cuda.device_count()}; use backend='gloo', or fewer ranks"
            )

    def _variables(self, folder: Path) -> dict[str, str]:
        threads = str(max(1, (os.cpu_count() or 1) // self.world_size))
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        defaults = {"OMP_NUM_THREADS": threads, "GLOO_SOCKET_IFNAME": loopback}  # all ranks are on this machine
        world = str(self.world_size)
        group = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1"}
        return (
            defaults | dict(os.environ) | group | {"MASTER_PORT": _free_port(), TOKEN: str(folder)} | self._environment
        )

    def _ask(self, folder: Path, job: Job, limit: float) -> tuple[list[Outcome], dict[int, int]]:
        """Have the job done; gives the outcomes, and the exit codes of ranks that ended without one.

        Ranks that are in neither were still running at the time limit, or a while after another rank had failed.
        """
        deadline = time.monotonic() + limit
        self._jobs += 1
        job_file(folder, self._jobs).write_bytes(pickle.dumps(job))
        for rank in self._ranks:
            _say(rank, str(self._jobs))
        outcomes: dict[int, Outcome] = {}
        codes: dict[int, int] = {}
        failing = False
        while len(outcomes) + len(codes) < self.world_size and time.monotonic() < deadline:
            for number in set(range(self.world_size)) - outcomes.keys() - codes.keys():
                self._look(folder, number, outcomes, codes)
            if not failing and (codes or any(outcome.findings for outcome in outcomes.values())):
                failing = True
                deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
            time.sleep(0.02)
        return [outcomes[rank] for rank in sorted(outcomes)], codes

    def _look(self, folder: Path, number: int, outcomes: dict[int, Outcome], codes: dict[int, int]) -> None:
        code = self._ranks[number].poll()  # before the file is looked for: it may answer and end in between
        path = outcome_file(folder, self._jobs, number)
        if path.exists():
            outcomes[number] = pickle.loads(path.read_bytes())
        elif code is not None:
            codes[number] = code

    def _judged(self, folder: Path, outcomes: list[Outcome], codes: dict[int, int], limit: float) -> list[Finding]:
        running = set(range(self.world_size)) - {outcome.rank for outcome in outcomes} - codes.keys()
        stacks = self._stacks(folder, running)
        if codes:
            ends = {rank: main_stack(stack_file(folder, rank)) for rank in codes}
            findings = died(codes, ends, outcomes)
        else:
            findings = merged(outcomes)
        if running and not findings:
            return [hung(limit, stacks)]
        if running:
            lines = [findings[0].evidence, *still_there(stacks)]
            findings[0] = replace(findings[0], evidence="\n".join(line for line in lines if line))
        return findings

    def _stacks(self, folder: Path, ranks: set[int]) -> dict[int, Location | None]:
        """Where each rank is: it writes the stacks of its threads when it gets the signal, whatever it does."""
        for rank in ranks:
            self._ranks[rank].send_signal(signal.SIGUSR1)
        found: dict[int, Location | None] = dict.fromkeys(sorted(ranks))
        deadline = time.monotonic() + 2.0
        while any(place is None for place in found.values()) and time.monotonic() < deadline:
            time.sleep(0.1)
            found = {rank: main_stack(stack_file(folder, rank)) for rank in found}
        return found

    def _kill(self) -> None:
        """End the ranks and everything that they have started, and remove their folder."""
        for rank in self._ranks:
            if rank.poll() is None:
                os.killpg(rank.pid, signal.SIGKILL)
            rank.wait()
            with contextlib.suppress(OSError):
                rank.stdin.close() if rank.stdin else None
        if self._folder is not None:
            for pid in alive_of(f"{TOKEN}={self._folder}"):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self._show_logs()
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder, self._ranks = None, []

    def _show_logs(self) -> None:
        if self._folder is None:
            return
        for rank in range(len(self._ranks)):
            with (self._folder / f"log-{rank}").open(encoding="utf-8", errors="replace") as log:
                log.seek(self._read[rank])
                lines = log.read().splitlines()
                self._read[rank] = log.tell()
            for line in lines[-_LOG_LINES:]:
                print(f"[{named([rank])}] {line}")


def packed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], backend: str) -> Job:
    """A call, ready to be sent.

    Raises:
        CompileUsageError: something that pickle cannot send.
    """
    home = function
    while isinstance(home, functools.partial):
        home = home.func
    module = getattr(home, "__module__", None) or type(home).__module__
    try:
        payload = pickle.dumps((function, args, kwargs))
    except Exception as error:
        raise CompileUsageError(
            f"{target_name(function)} or its arguments cannot be sent to another process: {error}. Define the function "
            "at the top of a module, and build models and other objects inside it."
        ) from error
    return Job(backend, False, module, getattr(sys.modules.get(module), "__file__", None) or "", payload)


def _unpacked(value: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(value), map_location="cpu", weights_only=False)


def _start(folder: Path, rank: int, environment: dict[str, str]) -> subprocess.Popen[str]:
    path = [str(Path(entry).resolve()) for entry in sys.path]
    with (folder / f"log-{rank}").open("w", encoding="utf-8") as log:
        return subprocess.Popen(
            [sys.executable, "-u", "-c", _START.format(path=path, folder=str(folder), rank=rank)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches this process only, which then ends the ranks
        )


def _say(rank: subprocess.Popen[str], line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # it has ended: whoever waits for it will see
        if rank.stdin is not None:
            rank.stdin.write(line + "\n")
            rank.stdin.flush()


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
