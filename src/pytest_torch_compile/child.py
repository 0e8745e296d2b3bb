"""Every process of ours that runs pytest starts here: what it takes over from its parent, and what is different in it.

A child repeats the command line of its parent word for word, in the same folder and environment, as a worker of
pytest-xdist does. So it has the same ini file, plugins, conftest files and options, also those of other plugins. What
must differ is set by name after the child has read its command line (``plugin/in_child.py``). No plugin is switched
off: addopts may hold options of it, and without it pytest would refuse them.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
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
OF_RUN = "of the run"  # the key of a result that is about the whole run

# Options that no child takes over, by the name under which pytest keeps them. All others are the parent's.
NOT_INHERITED: dict[str, Any] = {
    # One test needs one process, and pytest-benchmark times nothing beside pytest-xdist.
    "numprocesses": 0,
    "distload": False,
    "looponfail": False,
    # Nobody can answer a debugger there.
    "usepdb": False,
    "trace": False,
    # Files and folders that belong to the parent: a child would empty them or write over them.
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
    # What it prints is quoted in messages.
    "color": "no",
}
# Plugins that remember between runs which tests failed: that is for the parent to do, and for it to go by.
UNREGISTERED = ("lfplugin", "nfplugin", "stepwiseplugin")
# Pytest's note of the test that is running: in a child it would be that of the parent.
FORGOTTEN = ("PYTEST_CURRENT_TEST",)
# How long a child may take to write where it is, before it is ended.
STACK_SECONDS = 5.0
# How often a person is told how far a child is.
PROGRESS_SECONDS = 30.0


@dataclass(frozen=True)
class Job:
    """What a child is for. It travels as JSON in a file.

    A variable of its environment names the file, and is removed when the child starts.
    """

    tests: Sequence[str] | None = None  # in place of those of the command line: ids, or paths
    options: Mapping[str, Any] = field(default_factory=dict)  # by name, over the command line and ``NOT_INHERITED``
    speed_tests: int = 0  # of the parent's run: how many comparisons its gate allows for
    results: str = ""  # the file for what the child has to say, a line of JSON each
    stacks: str = ""  # the file for where its threads are, when it is asked with SIGUSR1
    parent: int = -1  # the end of a pipe that closes when the parent ends, however it does


@dataclass(frozen=True)
class Ended:
    """How a child ended; ``status`` is None where it took too long, and ``stacks`` says where it was (faulthandler).

    ``collected`` are the tests that it was about to run. ``finished``: pytest came to its end, as it does not where a
    test ends the process.
    """

    status: int | None
    output: str
    results: Sequence[Any] = ()
    stacks: str = ""
    collected: Sequence[str] = ()
    finished: bool = False

    @property
    def last_line(self) -> str:
        """The last line that it printed, which is how pytest sums up a run."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return lines[-1] if lines else f"exit status {self.status}, no output"


@dataclass(frozen=True)
class Child:
    """A pytest to be started: the arguments and the folder that its parent was started with, and its job.

    Plugins that the parent got as objects (``pytest.main(plugins=[...])``) cannot be repeated.
    """

    arguments: Sequence[str]
    folder: Path
    job: Job = Job()
    python: str = sys.executable

    def with_options(self, **options: Any) -> Child:
        """The same child with further options, by name: ``compile_perf="track"``."""
        return replace(self, job=replace(self.job, options={**self.job.options, **options}))

    def run(
        self,
        environment: Mapping[str, str | None] | None = None,
        seconds: float | None = None,
        too_long: tuple[type[BaseException], ...] = (),
        progress: Callable[[int], None] | None = None,
    ) -> Ended:
        """Start it and wait, ``seconds`` at most; an exception of ``too_long`` that is raised here ends it as well.

        ``environment`` adds variables, and removes those that are None. ``progress`` is called now and then with the
        number of results that there are, where no ``seconds`` are given. Whatever the child has started ends with it.
        """
        with TemporaryFolder("torch-compile-child-") as place:
            # A file and no pipe: a process that the child started and left would keep a pipe open.
            output = place / "output"
            job = replace(self.job, results=str(place / "results.jsonl"), stacks=str(place / "stacks"))
            process, parent = self._start(job, output, environment or {})
            try:
                while progress and process.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(PROGRESS_SECONDS)
                    lines = _text(Path(job.results)).splitlines(keepends=True)
                    progress(sum(line.endswith("\n") and not line.startswith(f'{{"{OF_RUN}"') for line in lines))
                status: int | None = process.wait(seconds)
                why = ""
            except subprocess.TimeoutExpired:
                _write_stacks(process, Path(job.stacks))
                status, why = None, f"it took longer than {seconds:.0f} s"
            except too_long as error:
                _write_stacks(process, Path(job.stacks))
                status, why = None, str(error)
            finally:
                end(process)
                os.close(parent)
            said = [line for line in _text(Path(job.results)).splitlines(keepends=True) if line.endswith("\n")]
            text = "\n".join(filter(None, [_text(output), why]))
            # A child that was killed may have left a part of a line.
            results = [json.loads(line) for line in said]
            run = {key: value for one in results if _is_of_run(one) for key, value in one[OF_RUN].items()}
            results = [one for one in results if not _is_of_run(one)]
            return Ended(status, text, results, _text(Path(job.stacks)), run.get("collected", ()), "finished" in run)

    def _start(
        self, job: Job, output: Path, environment: Mapping[str, str | None]
    ) -> tuple[subprocess.Popen[bytes], int]:
        """The process, in a group of its own, and the end of the pipe that tells it that this process is there."""
        end_of_child, end_of_parent = os.pipe()
        # Many ids of tests would not fit into a variable.
        file_of_job = output.with_name("job.json")
        file_of_job.write_text(json.dumps(vars(replace(job, parent=end_of_child))), encoding="utf-8")
        changes = {**dict.fromkeys(FORGOTTEN), **environment, VARIABLE: str(file_of_job)}
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


def _is_of_run(result: Any) -> bool:
    return isinstance(result, dict) and OF_RUN in result


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _write_stacks(process: subprocess.Popen[bytes], stacks: Path) -> None:
    """Ask a child that hangs where its threads are, and wait until it has said so."""
    if not _text(stacks):
        return  # it has not come far enough to answer: the signal would end it
    before, end = stacks.stat().st_size, time.monotonic() + STACK_SECONDS
    process.send_signal(signal.SIGUSR1)
    while stacks.stat().st_size == before and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)  # it may have begun to write only


def end(process: subprocess.Popen[bytes]) -> None:
    """End a child and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def take_job() -> Job | None:
    """The job of this process, once: processes that its tests start are no children of ours."""
    file = os.environ.pop(VARIABLE, None)
    if file is None:
        return None
    known = {field.name for field in fields(Job)}  # the parent may be another version, which ``compare`` runs
    job = json.loads(Path(file).read_text(encoding="utf-8"))
    return Job(**{name: value for name, value in job.items() if name in known})


def follow(job: Job) -> None:
    """In a child: end with the parent, also when that is killed, and say where threads are when it asks."""
    if job.parent < 0:
        return
    os.set_inheritable(job.parent, False)
    threading.Thread(target=_end_with_parent, args=[job], daemon=True, name="parent watch").start()
    _open.append(stacks := Path(job.stacks).open("w", encoding="utf-8"))  # noqa: SIM115 - faulthandler has its number
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    print(f"{threading.main_thread().ident:x}", file=stacks, flush=True)


_open: list[TextIO] = []


def _end_with_parent(job: Job) -> None:
    while os.read(job.parent, 1):
        pass
    shutil.rmtree(Path(job.results).parent, ignore_errors=True)  # what a parent that was killed could not remove
    os.killpg(0, signal.SIGKILL)
