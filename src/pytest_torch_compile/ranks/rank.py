"""Run one rank of a group: a process that joins the group, runs functions and returns their outcomes."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from pathlib import Path

from .. import settings
from .._torch.object_text import message_of
from .._torch.reset import reset_dynamo
from .._torch.stuck import place_of
from ..events import listening
from ..findings import CompileCheckFailed, CompileReport, Finding
from ..observation import Location
from .progress import Recorder
from .transport import ModulesOfParent, pack_value


@dataclass(frozen=True)
class Job:
    """A call, as it is sent to a rank: ``payload`` is the packed function with its arguments.

    ``modules`` and ``options`` come from the parent, ``store`` is the store prefix for the rendezvous, and ``seen`` is
    the folder for observations. ``rejoin`` requests a new process group, because a failed call may have left unfinished
    work in the old group.
    """

    payload: bytes
    modules: Mapping[str, ModuleSpec]
    options: settings.Settings
    backend: str
    store: str
    seen: Path
    rejoin: bool


@dataclass(frozen=True)
class Raised:
    """An exception that a rank's function raised. ``location`` is the line of user code that raised it."""

    type: str
    text: str
    location: Location | None


@dataclass
class Outcome:
    """The outcome of one rank's call: a packed ``value``, an exception in ``raised``, or a failed check."""

    rank: int
    value: bytes | None = None
    raised: Raised | None = None
    findings: tuple[Finding, ...] = ()
    report: CompileReport | None = None
    reports: list[CompileReport] = field(default_factory=list)
    ended: float = 0.0


def main(rank: int, log_file: Path, stack_file: Path, connection: Connection) -> None:
    """Request and run jobs until there are no more jobs. A rank exits at once if its parent exits.

    Output is written to ``log_file``. On SIGUSR1 or a crash, the stacks of all threads are written to ``stack_file``.
    """

    def end_with_parent() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
        os._exit(1)

    os.setsid()  # only the parent handles Ctrl-C; it then terminates the ranks
    multiprocessing.set_start_method(None, force=True)  # keeps the default start method for code in the job's function
    log = log_file.open("a", encoding="utf-8", buffering=1)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    sys.stdout = sys.stderr = log
    stacks = stack_file.open("w", encoding="utf-8")
    print(f"{threading.main_thread().ident:x}", file=stacks, flush=True)
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    threading.Thread(target=end_with_parent, daemon=True, name="parent watch").start()
    modules = ModulesOfParent()
    sys.meta_path.insert(0, modules)
    while True:
        connection.send(None)  # request first, so that the parent does not block on a rank that is not ready
        job: Job | None = connection.recv()
        if job is None:
            return _leave()
        modules.specs, settings.current = job.modules, job.options
        connection.send(_carry_out(job, rank))
        reset_dynamo()


def _carry_out(job: Job, rank: int) -> Outcome:
    outcome = Outcome(rank)
    with listening(outcome.reports.append):
        try:
            if job.rejoin:
                _leave()
            _join(job, rank)
            function, args, kwargs = pickle.loads(job.payload)
            with Recorder(job.seen / str(rank)).recording():
                value = function(*args, **kwargs)
            outcome.value = pack_value(value)
        except SystemExit:
            raise
        except BaseException as error:
            if isinstance(error, CompileCheckFailed) and error.findings:
                outcome.findings, outcome.report = error.findings, error.report
            else:
                frames = traceback.extract_tb(error.__traceback__)
                place = place_of([Location(f.filename, f.lineno or 0, f.name, f.line or "") for f in frames])
                outcome.raised = Raised(type(error).__name__, message_of(error).strip() or "no message", place)
    outcome.ended = time.time()
    return outcome


def _join(job: Job, rank: int) -> None:
    import torch.distributed

    if torch.distributed.is_initialized():
        return
    if "nccl" in job.backend:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    server = torch.distributed.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    store = torch.distributed.PrefixStore(job.store, server)
    world_size = int(os.environ["WORLD_SIZE"])
    torch.distributed.init_process_group(job.backend, store=store, rank=rank, world_size=world_size)


def _leave() -> None:
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
