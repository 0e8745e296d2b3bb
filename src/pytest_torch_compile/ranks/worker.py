"""One rank of a group: a process that joins it, runs the functions it is sent, and says how each of them ended."""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import io
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..events import listening
from ..findings import CompileCheckFailed, Finding
from ..observation import Location

if TYPE_CHECKING:
    from ..findings import CompileReport

END = "end"


@dataclass(frozen=True)
class Job:
    """A call as it travels: ``payload`` is the pickled ``(function, args, kwargs)``, ``file`` where the module lies.

    ``rejoin`` asks for a new process group: a call that failed may have left the old one with work undone.
    """

    backend: str
    rejoin: bool
    module: str
    file: str
    payload: bytes


@dataclass
class Outcome:
    """How one rank's call ended: ``findings`` is empty when it returned; ``value`` is what it returned, pickled."""

    rank: int
    value: bytes = b""
    findings: list[Finding] = field(default_factory=list)
    report: CompileReport | None = None
    reports: list[CompileReport] = field(default_factory=list)
    ended: float = 0.0


def job_file(folder: Path, number: int) -> Path:
    """Where the group leaves a job for its ranks."""
    return folder / f"job-{number}"


def outcome_file(folder: Path, number: int, rank: int) -> Path:
    """Where a rank leaves the outcome of a job."""
    return folder / f"outcome-{number}-{rank}"


def stack_file(folder: Path, rank: int) -> Path:
    """Where a rank writes its stacks when it is asked to, or dies of a signal. The first line is its main thread."""
    return folder / f"stack-{rank}"


def main(folder: str, rank: int) -> None:
    """Run jobs until told to end; without its parent, a rank ends at once."""
    place = Path(folder)
    _be_ready_to_tell(stack_file(place, rank))
    for number in _numbers():
        job: Job = pickle.loads(job_file(place, number).read_bytes())
        outcome = _carry_out(job, rank, f"file://{place}/store-{number}")
        target = outcome_file(place, number, rank)
        unfinished = target.with_suffix(".part")
        unfinished.write_bytes(pickle.dumps(outcome))
        unfinished.rename(target)
        _forget()
    _leave()


def _be_ready_to_tell(path: Path) -> None:
    file = path.open("w", encoding="utf-8")
    file.write(f"{threading.main_thread().ident:x}\n")
    file.flush()
    faulthandler.enable(file)
    faulthandler.register(signal.SIGUSR1, file, all_threads=True)


def _numbers() -> Iterator[int]:
    """The jobs that the parent asks for on the standard input, until it says that this is the end."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line.strip())
        os._exit(1)  # the parent is gone, however it ended

    threading.Thread(target=read, daemon=True, name="parent watch").start()
    while (line := lines.get()) != END:
        yield int(line)


def _carry_out(job: Job, rank: int, store: str) -> Outcome:
    outcome = Outcome(rank)
    with listening(outcome.reports.append):
        try:
            if job.rejoin:
                _leave()
            _join(job.backend, store)
            function, args, kwargs = _unpacked(job)
            outcome.value = _packed(function(*args, **kwargs))
        except SystemExit:
            raise
        except BaseException as error:
            outcome.findings, outcome.report = _failure(error)
    outcome.ended = time.time()
    sys.stdout.flush()
    sys.stderr.flush()
    return outcome


def _join(backend: str, store: str) -> None:
    import torch.distributed

    if torch.distributed.is_initialized():
        return
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if "nccl" in backend:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(backend, init_method=store, rank=rank, world_size=world_size)


def _leave() -> None:
    import torch.distributed

    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def _forget() -> None:
    from .._torch.reset import reset_dynamo

    reset_dynamo()


def _packed(value: Any) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _unpacked(job: Job) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    load_home(job.module, job.file)
    unpacked: tuple[Any, tuple[Any, ...], dict[str, Any]] = pickle.loads(job.payload)
    return unpacked


def load_home(module: str, file: str) -> None:
    """Import the module that a function comes from: by name where that leads to its file, otherwise from the file.

    pytest's importlib mode gives test modules names that no search path leads to; a script's is ``__main__``.
    """
    if not file or (module in sys.modules and module != "__main__") or _leads_to(module, file):
        return
    name = "__rank_main__" if module == "__main__" else module
    if name in sys.modules:
        return
    _make_parents(name, Path(file))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, file
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = sys.modules[module] = loaded
    spec.loader.exec_module(loaded)


def _leads_to(module: str, file: str) -> bool:
    if module == "__main__":
        return False
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()


def _make_parents(module: str, file: Path) -> None:
    """Give a dotted module the packages that its relative imports start from."""
    parts = module.split(".")[:-1]
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        try:
            importlib.import_module(name)
        except ImportError:
            package = types.ModuleType(name)
            package.__path__ = [str(file.parents[len(parts) - depth])]
            sys.modules[name] = package


def _failure(error: BaseException) -> tuple[list[Finding], CompileReport | None]:
    if isinstance(error, CompileCheckFailed):
        return list(error.findings), error.report
    frames = [
        Location(frame.filename, frame.lineno or 0, frame.name, frame.line or "")
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    text = str(error).strip() or "no message"
    first, *rest = text.splitlines()
    where = place_of(frames)
    lines = [where.source, *rest[:10]] if where is not None else rest[:10]
    if where is not None and where.library is not None:
        lines.append(f"inside {where.library}: {where.library.source}")
    return [Finding("exception", f"{type(error).__name__}: {first}", where, "\n".join(lines))], None


def place_of(frames: list[Location]) -> Location | None:
    """The innermost of the user's own frames, outermost first given, without those of this package; None if none is."""
    from .._torch.source import user_location

    own = str(Path(__file__).parents[1])
    others = [frame for frame in frames if not frame.file.startswith(own)]
    return user_location(others) if others else None
