"""Start child processes that run pytest in the same way as their parent, apart from a few options.

Like a pytest-xdist worker, a child repeats the command line of its parent in the same folder and environment.
Therefore, the child has the same ini file, plugins, conftest files and options, including other plugins' options.
Options that must differ are set by name after the child has parsed its command line (``plugin/in_child.py``). No plugin
is disabled, because pytest rejects a disabled plugin's options in addopts.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TextIO

from .disk import TemporaryFolder

VARIABLE = "PYTEST_TORCH_COMPILE_CHILD"
OF_RUN = "of the run"  # the key of a result that is about the whole run instead of one test

# The options that children do not inherit, by their names in pytest. All other options are inherited.
NOT_INHERITED: dict[str, Any] = {
    # A child runs its tests in one process. With workers, pytest-xdist would disable pytest-benchmark.
    "numprocesses": 0,
    "distload": False,
    "looponfail": False,
    # A debugger would wait for input forever.
    "usepdb": False,
    "trace": False,
    # Options for the parent's files and folders, which a child would delete or overwrite.
    "basetemp": None,
    "cacheclear": False,
    "htmlpath": None,
    "json_report": False,
    "log_file": os.devnull,
    "pastebin": None,
    "report_log": None,
    "xmlpath": None,
    "allure_report_dir": None,
    "clean_alluredir": False,
    "benchmark_autosave": False,
    "benchmark_compare": None,
    "benchmark_compare_fail": [],
    "benchmark_histogram": None,
    "benchmark_json": None,
    "benchmark_save": None,
    # Messages quote the child's output, so the output must not contain color codes.
    "color": "no",
}
# Plugins that remember failed tests between runs; only the parent should do this.
UNREGISTERED = ("lfplugin", "nfplugin", "stepwiseplugin")
# pytest stores the current test in this variable; a child would inherit the parent's value.
FORGOTTEN = ("PYTEST_CURRENT_TEST",)
# Seconds that a child may take to write its stacks before it is terminated.
STACK_SECONDS = 5.0
# Seconds between progress messages, and between looks at a child that may be stopped or reports progress.
PROGRESS_SECONDS, POLL_SECONDS = 30.0, 0.1


@dataclass(frozen=True)
class Job:
    """A child's task, which the child receives as a JSON file.

    An environment variable contains the path of this file. The variable is removed when the child starts.
    """

    tests: Sequence[str] | None = None  # test ids or paths that replace the command line's test ids and paths
    options: Mapping[str, Any] = field(default_factory=dict)  # override the command line and ``NOT_INHERITED``
    speed_tests: int = 0  # number of speed comparisons in the parent's run; their error rate depends on it
    results: str = ""  # file for the child's messages, one JSON value per line
    stacks: str = ""  # file for the stacks of the child's threads, written on SIGUSR1
    parent: int = -1  # a pipe's file descriptor; the other end is closed when the parent exits


_SUMMARY = re.compile(r" in \d+(\.\d+)?s\b")  # pytest's last line
_ERROR = re.compile(r": error: |^(\w+\.)*\w*(Error|Exception): ")  # of argparse, or of a traceback
_LONGEST = 300  # a message can contain the repr of an object


@dataclass(frozen=True)
class Ended:
    """The outcome of a child process. If the child took too long, ``status`` is None and ``stacks`` contains the stacks
    of its threads, as printed by faulthandler.

    ``collected`` lists the tests that the child collected. ``finished`` is false if pytest did not run to completion,
    for example because a test ended the process.
    """

    status: int | None
    output: str
    results: Sequence[Any] = ()
    stacks: str = ""
    collected: Sequence[str] = ()
    finished: bool = False

    @property
    def summary(self) -> str:
        """The line of the output that tells how the child ended: pytest's summary of the run, or the error if pytest
        could not run.
        """
        lines = [line for line in self.output.splitlines() if line.strip()]
        if not lines:
            return f"exit status {self.status}, no output"
        errors = [line for line in lines if _ERROR.search(line)]
        ended_early = self.status is not None and not _SUMMARY.search(lines[-1])
        return (errors[-1] if ended_early and errors else lines[-1])[:_LONGEST]


@dataclass(frozen=True)
class Child:
    """A child process to start: its job, and the arguments and folder of its parent.

    Plugins that were passed as objects (``pytest.main(plugins=[...])``) cannot be inherited.
    """

    arguments: Sequence[str]
    folder: Path
    job: Job = Job()
    python: str = sys.executable

    def with_options(self, **options: Any) -> Child:
        """Return a copy of this child with additional options, such as ``compile_perf="track"``."""
        return replace(self, job=replace(self.job, options={**self.job.options, **options}))

    def run(
        self,
        environment: Mapping[str, str | None] | None = None,
        seconds: float | None = None,
        to_start: float = 0.0,
        too_long: tuple[type[BaseException], ...] = (),
        progress: Callable[[int], None] | None = None,
        stop: threading.Event | None = None,
    ) -> Ended:
        """Start the child. Terminate the child if it runs longer than ``seconds``, if another thread sets ``stop``, or
        if an exception interrupts the wait for the child. An exception whose class is listed in ``too_long`` counts as
        a timeout. The first ``to_start`` seconds do not count while the child is still collecting its tests.

        ``environment`` contains variables to add, or to remove if the value is None. If ``progress`` is set, it is
        called with the number of results, from time to time and when the child has ended. When the child ends, all
        processes that it started are terminated.
        """
        with TemporaryFolder("torch-compile-child-") as place, contextlib.ExitStack() as at_end:
            # A file instead of a pipe, because a process left behind by the child would keep a pipe open.
            output = place / "output"
            job = replace(self.job, results=str(place / "results.jsonl"), stacks=str(place / "stacks"))
            process, parent = self._start(job, output, environment or {})
            # A child that is not dead yet removes the folder once the pipe is closed, so close the pipe at the end.
            at_end.callback(os.close, parent)

            def count() -> None:
                lines = _text(Path(job.results)).splitlines(keepends=True)
                assert progress
                progress(sum(line.endswith("\n") and not line.startswith(f'{{"{OF_RUN}"') for line in lines))

            try:
                status = _wait(process, seconds, to_start, Path(job.results), stop, progress and count)
                why = ""
            except subprocess.TimeoutExpired:
                _write_stacks(process, Path(job.stacks))
                status, why = None, f"it took longer than {seconds:.0f} s"
            except too_long as error:
                _write_stacks(process, Path(job.stacks))
                status, why = None, str(error)
            finally:
                end(process)
            said = [line for line in _text(Path(job.results)).splitlines(keepends=True) if line.endswith("\n")]
            text = "\n".join(filter(None, [_text(output), why]))
            # A killed child may have left a partial line.
            results = [json.loads(line) for line in said]
            run = {key: value for one in results if _is_of_run(one) for key, value in one[OF_RUN].items()}
            results = [one for one in results if not _is_of_run(one)]
            return Ended(status, text, results, _text(Path(job.stacks)), run.get("collected", ()), "finished" in run)

    def _start(
        self, job: Job, output: Path, environment: Mapping[str, str | None]
    ) -> tuple[subprocess.Popen[bytes], int]:
        """Start the child in a separate process group. Return the process and one end of a pipe, through which the
        child detects that this process has exited.
        """
        end_of_child, end_of_parent = os.pipe()
        # A long list of test ids does not fit into an environment variable.
        file_of_job = output.with_name("job.json")
        file_of_job.write_text(json.dumps(vars(replace(job, parent=end_of_child))), encoding="utf-8")
        coverage = coverage_variables(self.folder)
        changes = {**dict.fromkeys(FORGOTTEN), **coverage, **environment, VARIABLE: str(file_of_job)}
        try:
            with output.open("wb") as file:
                process = subprocess.Popen(
                    [self.python, "-m", "pytest", *self.arguments],
                    cwd=self.folder,
                    env={name: value for name, value in {**os.environ, **changes}.items() if value is not None},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=[end_of_child],
                )
        except BaseException:
            os.close(end_of_parent)
            raise
        finally:
            os.close(end_of_child)
        return process, end_of_parent


def coverage_variables(folder: Path) -> dict[str, str]:
    """Return the environment variables with which a child stores its coverage in a file of its own, if this process
    measures coverage. The parent's file is in ``folder``, if its path is relative.

    At its start, pytest-cov erases its file. At its end, it adds all files whose names begin with the name of its own,
    and removes them. So a child must not have the parent's file, but a file that the parent adds to its own.
    """
    of_coverage = getattr(sys.modules.get("coverage"), "Coverage", None)  # None for another module of this name
    measured = of_coverage.current() if of_coverage is not None else None
    if measured is None:
        return {}
    file = Path(folder, measured.get_option("run:data_file") or ".coverage").absolute()
    return {"COVERAGE_FILE": f"{file}.child-{os.getpid()}-{secrets.token_hex(4)}"}


def _wait(
    process: subprocess.Popen[bytes],
    seconds: float | None,
    to_start: float,
    results: Path,
    stop: threading.Event | None,
    progress: Callable[[], None] | None,
) -> int | None:
    """Return the child's exit status, or None if ``stop`` was set before the child ended."""
    began = told = time.monotonic()
    limit, collecting = float("inf") if seconds is None else seconds, to_start > 0
    deadline = began + to_start + limit
    while stop is None or not stop.is_set():
        if collecting and results.exists():  # the child's first message lists the tests that it collected
            collecting, deadline = False, min(deadline, time.monotonic() + limit)
        try:
            status = process.wait(min(max(deadline - time.monotonic(), 0.0), POLL_SECONDS))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= deadline:
                raise
        else:
            if progress:
                progress()
            return status
        if progress and time.monotonic() > told + PROGRESS_SECONDS:
            progress()
            told = time.monotonic()
    return None


def _is_of_run(result: Any) -> bool:
    return isinstance(result, dict) and OF_RUN in result


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _write_stacks(process: subprocess.Popen[bytes], stacks: Path) -> None:
    """Make a hanging child write the stacks of all its threads, and wait until the stacks are written."""
    if not _text(stacks):
        return  # the child has not installed its signal handler yet, so the signal would terminate it
    end = time.monotonic() + STACK_SECONDS
    process.send_signal(signal.SIGUSR1)
    while time.monotonic() < end:
        before = _text(stacks)
        main_thread, _, written = before.partition("\n")
        time.sleep(0.2)
        # The main thread comes last. The text is complete once it contains this thread and has stopped growing.
        if f"0x{main_thread:0>16}" in written and _text(stacks) == before:
            break


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a child and all processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def take_job() -> Job | None:
    """Return this process's job, or None if this process is not a child. Later calls return None, and so do calls in
    processes that the tests start.
    """
    file = os.environ.pop(VARIABLE, None)
    if file is None:
        return None
    known = {field.name for field in fields(Job)}  # the parent may run another version of the plugin (``compare``)
    job = json.loads(Path(file).read_text(encoding="utf-8"))
    return Job(**{name: value for name, value in job.items() if name in known})


def follow(job: Job) -> None:
    """Make this child exit when its parent exits, even if the parent is killed. Also install a signal handler that
    writes the stacks of all threads.
    """
    if job.parent < 0:
        return

    def end_with_parent() -> None:
        while os.read(job.parent, 1):  # returns nothing once the parent has exited
            pass
        shutil.rmtree(Path(job.results).parent, ignore_errors=True)  # a killed parent could not remove it
        os.killpg(0, signal.SIGKILL)

    os.set_inheritable(job.parent, False)
    threading.Thread(target=end_with_parent, daemon=True, name="parent watch").start()
    _open.append(stacks := Path(job.stacks).open("w", encoding="utf-8"))  # noqa: SIM115 - faulthandler uses its descriptor
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    print(f"{threading.main_thread().ident:x}", file=stacks, flush=True)


_open: list[TextIO] = []
