"""Collect one entry for each test, and write the ``--compile-report`` files at the end of the run. Under pytest-xdist,
only the controller collects entries and writes files.
"""

from __future__ import annotations

import datetime
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .. import __version__, settings
from ..findings import CompileUsageError
from ..report import document, render, results
from ..report.safe_text import terminal
from . import known_failure, payload, torchrun, unwritten


def begin(config: pytest.Config) -> None:
    """Register the collector if ``--compile-report`` is set, in the process that reports for all others."""
    # A run that only collects has no results, and must not replace those of an earlier run.
    if settings.current.report and not config.option.collectonly and torchrun.leads(config):
        folder = settings.below_root(config.rootpath, settings.current.report)
        config.pluginmanager.register(Collector(folder, config), "torch-compile-report")


class Collector:
    """The hooks that collect the entries of ``report.json``. These hooks are registered only in the process that
    receives pytest's reports of all tests.
    """

    def __init__(self, folder: Path, config: pytest.Config) -> None:
        self._folder = folder
        self._root = config.rootpath
        self._selection = _selection(config)
        self._tests: dict[str, dict[str, Any]] = {}
        self._waiting: dict[str, list[pytest.TestReport]] = {}  # the reports of running tests without an entry
        self._results: dict[str, list[tuple[str, str]]] = {}  # the outcomes and messages of the parts of each test
        self._environments: dict[str, Any] = {}
        self.written: Path | None = None
        self._problem = self._remark = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the entry of a test that used the plugin, or of any test that crashed its worker."""
        test, sent = report.nodeid, payload.read(report)
        if report.when == "setup":  # discard an earlier run of the same test
            for stored in (self._tests, self._waiting, self._results):
                stored.pop(test, None)
        reports = [*self._waiting.pop(test, ()), report]
        if sent is None and test not in self._tests and report.when in ("setup", "call", "teardown"):
            if report.when != "teardown":  # the test may still use the plugin
                self._waiting[test] = reports
            return
        environment = sent.environment if sent else results.environment()
        for one in reports:
            self._add(one, environment)

    def _add(self, report: pytest.TestReport, environment: dict[str, Any]) -> None:
        """Add one report to its test's entry. The outcome of a test is the worst outcome of its phases and subtests."""
        file, line, _ = report.location
        entry = self._entry(report.nodeid, file, (line or 0) + 1, environment)
        outcome, message, sent = _outcome(report), _message(report), payload.read(report)
        if sent and sent.usage_error:
            # The report already shows the kind ``usage-error``, so the message needs no name of the exception's class.
            message = message.removeprefix(f"{CompileUsageError.__module__}.")
            message = message.removeprefix(f"{CompileUsageError.__name__}: ")
            entry["usage_error"] = True
        if sent:
            entry["checks"] += sent.checks
            entry["speed"] += map(results.speed_entry, sent.timings)
        parts = self._results.setdefault(report.nodeid, [])
        if _is_subtest(report):  # its time is part of the time of its test
            if not report.passed:
                parts.append((outcome, message))
            return
        entry["duration"] += report.duration
        if report.when == "setup" and report.passed:  # replaced when the call phase is reported
            entry |= {"outcome": "error", "message": "the run ended before the test finished"}
            return
        if not (report.when == "teardown" and report.passed):
            parts.append((outcome, message))
        if parts:
            outcome, message = max(parts, key=lambda part: document.OUTCOMES.index(part[0]))
            entry |= {"outcome": outcome, "message": message}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """If a file cannot be collected, add an entry with the outcome ``error``."""
        if report.failed:
            entry = self._entry(report.nodeid, report.nodeid.split("::")[0], 0, results.environment())
            entry |= {"outcome": "error", "message": str(report.longrepr)}

    def _entry(self, test: str, file: str, line: int, environment: dict[str, Any]) -> dict[str, Any]:
        """Return a test's entry, and set its ``environment``. If there is no entry yet, create it."""
        key = results.environment_key(environment)
        self._environments[key] = environment
        entry = self._tests.setdefault(
            test,
            {
                "id": test,
                "file": file.replace("\\", "/"),
                "line": line,
                "environment": key,
                "outcome": "skipped",
                "duration": 0.0,
                "message": "",
                "checks": [],
                "speed": [],
            },
        )
        entry["environment"] = key
        return entry

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write the report in each output format."""
        # Whether the run stopped early: because of -x, an interrupt, or an internal error of pytest.
        early = session.shouldfail or session.shouldstop or int(exitstatus) not in (0, 1, 5)
        try:
            history = self._earlier()
            self.written = render.write_all(self._document(session, exitstatus, bool(early), history), self._folder)
        except Exception as error:  # an exception would suppress pytest's summary
            self._problem = f"{self._folder} was not written: {unwritten.reason(error)}"
            unwritten.fail(session)

    def _earlier(self) -> list[Any]:
        """Return the history from the existing ``report.json``. If this file cannot be read, return an empty history,
        and do not fail the run.
        """
        if not (self._folder / document.FILE_NAME).exists():
            return []
        try:
            return list(document.read(self._folder)["history"])
        except document.DocumentError as error:
            self._remark = f"starting a new history: {error}"
            return []

    def _document(self, session: pytest.Session, exitstatus: int, early: bool, history: list[Any]) -> document.Document:
        return document.new(
            self._tests.values(),
            self._environments,
            created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            version=__version__,
            exit_status=int(exitstatus),
            commit=_commit(self._root),
            history=history,
            selection=", ".join(filter(None, [self._selection, document.STOPPED_EARLY if early else ""])),
        )

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the path of the report, or the reason why it was not written."""
        if self._problem:
            unwritten.say(terminalreporter, f"torch.compile report: {self._problem}")
        if self._remark:
            terminalreporter.write_line(terminal(f"torch.compile report: {self._remark}"))
        if self.written is not None and self._tests:
            terminalreporter.write_line(f"torch.compile report: {self.written}")


def _is_subtest(report: pytest.TestReport) -> bool:
    # The class is identified by name: SubtestReport in pytest 9, SubTestReport in the plugin pytest-subtests.
    return type(report).__name__.lower() == "subtestreport"


def _outcome(report: pytest.TestReport) -> str:
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "failed"
    if report.failed:
        return "failed" if report.when == "call" or known_failure.is_mended(report) else "error"
    return "skipped" if report.skipped else "passed"


def _message(report: pytest.TestReport) -> str:
    """Return the reason why a test failed or was skipped: the exception's message without the traceback."""
    if report.passed:
        return ""
    if wasxfail := getattr(report, "wasxfail", ""):
        return str(wasxfail)
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "")


def _commit(root: Path) -> str:
    """Return the checked-out commit, or an empty string if it is unknown."""
    if sha := os.environ.get("GITHUB_SHA"):
        return sha
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _selection(config: pytest.Config) -> str:
    """Return the options and paths that select this run's tests, such as ``-k attention tests/test_a.py``, or an empty
    string if all tests run. The report keeps a separate history for each selection.

    Paths are relative to the root directory.
    """
    option = vars(config.option)
    parts = [f"{flag} {option[name]}" for flag, name in (("-k", "keyword"), ("-m", "markexpr")) if option.get(name)]
    parts += [f"--deselect {test}" for test in sorted(option.get("deselect") or ())]
    parts += [flag for flag, name in (("--lf", "lf"), ("--sw", "stepwise")) if option.get(name)]
    if config.args_source is not config.ArgsSource.TESTPATHS:
        named = sorted({_relative(path, config.invocation_params.dir, config.rootpath) for path in config.args} - {"."})
        usual = sorted({_relative(path, config.rootpath, config.rootpath) for path in config.getini("testpaths")})
        parts += [] if named == usual else named  # the paths that pytest runs by default are not a selection
    return " ".join(parts)


def _relative(argument: str, start: Path, root: Path) -> str:
    path, separator, inner = argument.partition("::")
    return os.path.relpath(start / path, root).replace(os.sep, "/") + separator + inner
