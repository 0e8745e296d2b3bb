"""Run a function in a fresh process with the same torch settings as this process."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import torch

from .. import settings
from .._torch.process_settings import ProcessSettings
from ..disk import TemporaryFolder
from ..findings import CompileUsageError, Finding
from ..ranks.rank import Raised
from ..ranks.transport import Reduce, pack, pack_by_value, user_modules
from .server import ForkedProcess, server

_LOG_LINES = 15


@dataclass(frozen=True)
class Job:
    """A function call, as it is sent to the fresh process: ``payload`` is the pickled function with its arguments."""

    payload: bytes
    modules: Mapping[str, ModuleSpec]
    options: settings.Settings
    torch: ProcessSettings


@dataclass(frozen=True)
class Ended:
    """The outcome of the fresh process: the ``value`` that the function returned, or the exception that it ``raised``.
    If the function neither returned nor raised an exception, ``without_answer`` describes how the process ended.
    """

    value: Any = None
    raised: Raised | None = None
    without_answer: str = ""
    log: str = ""

    def failure(self, process: str, raises: str) -> Finding | None:
        """Return a finding if the function returned no value. ``process`` is the name of the process in the message,
        and ``raises`` is the text about an exception, with ``{}`` in place of the exception's type.
        """
        if self.without_answer:
            return Finding("exception", f"{process} {self.without_answer}", evidence=self.log)
        if self.raised is not None:
            message = f"{process} {raises.format(self.raised.type)}"
            return Finding("exception", message, self.raised.location, self.raised.text)
        return None


def run_fresh(
    function: Callable[..., Any],
    *args: Any,
    seconds: float,
    environment: Mapping[str, str] | None = None,
    empty_cache: bool = False,
    preload: Sequence[str] = (),
) -> Ended:
    """Run ``function(*args)`` in a fresh process. Terminate the process and remove its files regardless of how the
    function ends. If ``empty_cache`` is true, the process compiles with an empty compile cache.

    ``preload`` lists modules that the function needs. On Linux, if ``preload`` is set, the process is forked from a
    server process that has already imported these modules.

    Raises:
        CompileUsageError: If the function or an argument cannot be sent to the fresh process.
    """
    job = Job(packed(function, args), user_modules(), settings.current, ProcessSettings.now())
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    variables = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    with TemporaryFolder("torch-compile-fresh-") as folder:
        if empty_cache:
            variables["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "cache")
        (folder / "job").write_bytes(pickle.dumps(job))
        process: ForkedProcess | subprocess.Popen[bytes] | None = None
        if preload and sys.platform == "linux":
            process = server.fork(folder, preload, variables, seconds)
        if process is None:
            process = _started(folder, variables)
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            # The process leads a process group, which also contains the processes that it has started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(process, subprocess.Popen) and process.stdin is not None:
                process.stdin.close()
        return _ended(folder, code, seconds)


def _started(folder: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker", str(folder)],
            env=variables,
            stdin=subprocess.PIPE,  # the system closes this pipe when the parent process exits
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def packed(function: Callable[..., Any], args: tuple[Any, ...], reduce: Reduce | None = None) -> bytes:
    """Serialize the call ``function(*args)`` as bytes for ``pickle.loads`` in the fresh process. ``reduce`` is used as
    ``Pickler.reducer_override``.

    Raises:
        CompileUsageError: If the function or an argument cannot be sent to the fresh process.
    """
    by_name = pack(function, args, {}, reduce)
    if b"__main__" not in by_name:
        return by_name
    try:  # the fresh process has a different main module
        return pack_by_value((function, args, {}), reduce)
    except ImportError as error:
        raise CompileUsageError(
            "functions and classes in a script can be sent to another process only with cloudpickle: pip "
            "install 'pytest-torch-compile[ranks]', or define the model in a module"
        ) from error


def _ended(folder: Path, code: int | None, seconds: float) -> Ended:
    log = "\n".join((folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-_LOG_LINES:])
    answer = folder / "answer"
    if code == 0 and answer.exists():
        value, raised = torch.load(answer, weights_only=False)
        return Ended(value, raised, log=log)
    if code is None:
        how = f"did not finish within {seconds:g} s"
    else:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return Ended(without_answer=how, log=log)
