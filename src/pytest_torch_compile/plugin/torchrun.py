"""Under torchrun or Slurm, every rank runs the same tests. Rank 0 reports for all ranks; the other ranks print
nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType

import pytest

from .. import child
from ..ranks.launched import Others, launch, others
from . import in_child, termination, usage
from .orphaned import PARENT, end_with_session

# The maximum number of seconds for which a test continues on another rank after it has ended on rank 0.
TEST_SECONDS = 600.0
# After a rank is lost, the current test has this many seconds to fail by itself before the session ends.
END_SECONDS = 8.0
# The time limit for rank 0 to write its report, in seconds.
REPORT_SECONDS = 60.0


# The names of folders that never contain a project's tests.
_NOT_SEARCHED = {"build", "dist", "node_modules", "site-packages", "venv"}
_TAKES_PART: pytest.StashKey[bool] = pytest.StashKey()
_ASKED: pytest.StashKey[list[int]] = pytest.StashKey()


def takes_part(config: pytest.Config) -> bool:
    """Return True if a launcher started this process as one of several ranks and the tests use the plugin.

    This function is first called before other plugins open files, so that several ranks do not write to the same file.
    The test files are not yet imported when this function is first called, so the function searches their source text.
    """
    if _TAKES_PART not in config.stash:
        config.stash[_TAKES_PART] = launch() is not None and any(map(usage.names_plugin, _files(config)))
    return config.stash[_TAKES_PART]


def _files(config: pytest.Config) -> Iterator[Path]:
    yield from config.rootpath.glob("conftest.py")
    for argument in config.args:
        place = config.invocation_params.dir / argument.partition("::")[0]
        if place.is_file():
            yield place
        for folder, inner, files in os.walk(place):
            inner[:] = [name for name in inner if name not in _NOT_SEARCHED and not name.startswith(".")]
            yield from (Path(folder, name) for name in files if name.endswith(".py"))


def follows(config: pytest.Config) -> bool:
    """Return whether this process is a rank other than 0. Rank 0 reports for all ranks."""
    here = launch()
    return here is not None and here.rank > 0 and takes_part(config)


def leads(config: pytest.Config) -> bool:
    """Return whether this process shows and stores the results of the run. A pytest-xdist worker, a child process and a
    rank other than 0 leave this to another process.
    """
    return _is_first_process(config) and not follows(config)


def _is_first_process(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput") and not in_child.is_child(config)


def begin(config: pytest.Config) -> None:
    """On ranks other than 0, reset the options that make plugins write files, before the plugins read these options."""
    if follows(config):
        for name, value in child.NOT_INHERITED.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)


def note_sigterm(config: pytest.Config) -> None:
    """Record a SIGTERM that arrives while conftest files are imported. The import may take seconds, and the other ranks
    cannot be notified before the import ends.
    """
    if launch() is not None and termination.nobody_handles_it():
        asked = config.stash[_ASKED] = list[int]()
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
        config.add_cleanup(lambda: _stop_noting(config))


def was_asked_to_end(config: pytest.Config) -> bool:
    """Return whether a SIGTERM was recorded, and stop recording."""
    asked = config.stash.get(_ASKED, [])
    _stop_noting(config)
    return bool(asked)


def join(config: pytest.Config) -> None:
    """If a launcher started this process as one of several ranks, register the hooks that connect the ranks. Otherwise,
    act on a SIGTERM that was recorded.
    """
    asked = was_asked_to_end(config)
    if _is_first_process(config) and takes_part(config):
        config.pluginmanager.register(LaunchedSession(config, asked), "torch-compile-launched")
    elif asked:
        signal.raise_signal(signal.SIGTERM)


def _stop_noting(config: pytest.Config) -> None:
    if _ASKED in config.stash:
        del config.stash[_ASKED]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class LaunchedSession:
    """The hooks for a process that a launcher started as one of several ranks."""

    def __init__(self, config: pytest.Config, asked: bool) -> None:
        self._config = config
        self._asked = asked  # whether a SIGTERM arrived before the other ranks were found
        self._ends_soon = False
        self._stderr = os.dup(2)  # a copy of stderr that pytest does not capture
        termination.end_in_order(config)
        self._at_sigterm = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, self._asked_to_end)
        config.add_cleanup(self._restore)
        self._session: pytest.Session | None = None
        self._others: Others | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Connect to the other ranks and watch them. On ranks other than 0, turn off the output and the plugins that
        store results.
        """
        plugins = self._config.pluginmanager
        if follows(self._config):
            reporter = plugins.get_plugin("terminalreporter")
            if reporter is not None:
                reporter._tw._file = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            for name in filter(plugins.has_plugin, child.UNREGISTERED):
                plugins.unregister(name=name)
        self._session = session
        try:
            self._others = others(self._lost)
        except RuntimeError as error:
            here = launch()
            line = f"rank {here.rank if here else 0} cannot reach the other ranks: {str(error).splitlines()[0]}"
            os.write(self._stderr, f"\npytest-torch-compile: {line}\n".encode())
            pytest.exit(line, returncode=pytest.ExitCode.TESTS_FAILED)
        # The parent is either torchrun's agent or a shell; a shell may exit after it has started all ranks.
        end_with_session(self._orphaned, PARENT if "TORCHELASTIC_RUN_ID" in os.environ else os.getppid())
        if self._asked:
            self._say_end()

    def _restore(self) -> None:
        signal.signal(signal.SIGTERM, self._at_sigterm)

    def _asked_to_end(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGTERM, which the launcher sends to all ranks when one rank fails. The current test gets time to
        report a failure.
        """
        self._asked = True
        if self._others is None or self._ends_soon:
            return
        if not self._others.lost:
            self._say_end()
        elif callable(self._at_sigterm):
            self._at_sigterm(number, frame)

    def _say_end(self) -> None:
        if self._others is not None:
            self._others.leave("it was terminated by its launcher (SIGTERM)")
            self._others.lose_all("the launcher terminated this run (SIGTERM), possibly because a rank exited")

    def _orphaned(self) -> None:
        if self._others is not None:
            self._others.leave("its launcher has exited, so this rank exits too")

    def _lost(self, line: str) -> None:
        """Handle the loss of a rank: print ``line`` on one rank, and end the session, because the test might wait for
        the lost rank forever.
        """
        lost = self._others.lost if self._others else {}
        here = launch()
        if self._session is not None and here is not None:
            self._session.shouldstop = f"{line}; stopping all tests"
            if all(rank in lost for rank in range(here.rank)):
                os.write(self._stderr, f"\npytest-torch-compile: {line}; stopping all tests\n".encode())
        if not self._ends_soon:
            self._ends_soon = True
            end = threading.Timer(END_SECONDS, self._end)
            end.daemon = True
            end.start()

    def _end(self) -> None:
        self._ends_soon = False
        os.kill(os.getpid(), signal.SIGTERM)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """If a test fails on any rank, report it as failed on rank 0."""
        report = yield
        if self._others is None or not (report.when == "call" or (report.when == "setup" and not report.passed)):
            return report
        here = self._others.here
        turn = self._others.turn(f"test {item.nodeid}")
        why = ""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            why = f"{crash.message}\n\n{report.longreprtext}" if crash else report.longreprtext
        self._others.say(f"{turn}/{here.rank}", why)
        if here.rank == 0 and not report.failed:
            ranks = range(here.world_size)
            told = self._others.gather(turn, ranks, TEST_SECONDS)
            late = f"did not report this test within {TEST_SECONDS:g} s of rank 0's report"
            texts = {rank: told[rank] if rank in told else self._others.why_gone(rank, late) for rank in ranks}
            failed = [f"rank {rank}: {text}" for rank, text in texts.items() if text]
            if failed:
                report.outcome, report.longrepr = "failed", "\n\n".join(failed)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Wait for all ranks; ranks other than 0 also wait for rank 0's report and exit with rank 0's status.

        The launcher terminates all ranks when one rank fails. If a failed rank did not wait, the launcher could
        terminate rank 0 before the report is written.
        """
        if self._others is None:
            return
        self._others.finish()
        if follows(self._config):
            status = self._others.gather("reported", range(1), REPORT_SECONDS, after_tests=True).get(0)
            session.exitstatus = status if status is not None else session.exitstatus or pytest.ExitCode.TESTS_FAILED
            self._others.say(f"read/{self._others.here.rank}")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """On rank 0, send the exit status to the other ranks, and wait until they have received it.

        The wait is necessary because the ranks communicate through a store that may stop when this process exits.
        """
        if self._others is None or self._session is None:
            return
        if not follows(self._config):
            self._others.say("reported/0", int(self._session.exitstatus))
            self._others.gather("read", range(1, self._others.here.world_size), END_SECONDS, after_tests=True)
        self._others.close()
