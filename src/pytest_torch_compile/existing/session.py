"""``--compile-existing`` in a session: observe the ordinary tests, and then add and run a test for each target."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from .. import settings
from ..report.safe_text import terminal
from .item import ExistingItem
from .run_time import RunTime
from .verdicts import LIKE_OTHERS, PASSING, Row, rows, table

_SENT, _UNKNOWN = "torch_compile_existing", "torch_compile_existing_unknown"


class ExistingSession:
    """The hooks for ``--compile-existing``, registered only if the option is set. Torch is imported only when a test
    runs.
    """

    def __init__(self, config: pytest.Config, backend: str | None, say: Callable[[str], None]) -> None:
        chosen = settings.current
        self._config = config
        self._package, self._patterns = package_and_patterns(chosen.existing or "")
        self._backend = backend
        self._say = say
        self._time = RunTime(60.0 * chosen.existing_minutes)
        self._selector: Any = None
        self._results: list[Any] = []
        self._left_out: dict[str, dict[str, int]] = {}
        self._seconds = 0.0
        self._begun = 0
        self._rows: list[Row] = []
        self._why_not = ""
        self._unknown = ""
        self._baseline: Any = None
        self._deselected: set[str] = set()

    @property
    def _is_worker(self) -> bool:
        return hasattr(self._config, "workerinput")

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends the tests to the controller
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Reject a name that does not exist. At this point, conftest files have made the package importable."""
        unknown = next((name for name in (self._package, *self._patterns) if not is_known(name)), "")
        if not unknown:
            return
        self._unknown = (
            f"--compile-existing={settings.current.existing}: {unknown} does not exist, or is not importable"
        )
        if not self._is_worker:
            raise pytest.UsageError(self._unknown)
        session.items.clear()  # a pytest-xdist worker cannot raise the error, so it only reports it

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Observe calls while an ordinary test runs."""
        if isinstance(item, ExistingItem) or self._package not in sys.modules or self._why_not:
            return (yield)
        if self._selector is None:
            from .call_selector import CallSelector

            root = self._config.rootpath
            self._selector = CallSelector(self._package, self._patterns, self._backend, root, self._say, self._time)
        self._begun += 1  # a pytest-xdist worker collects all tests but runs only some of them
        workers = int(self._config.workerinput["workercount"]) if self._is_worker else 1  # type: ignore[attr-defined]
        progress = self._begun * workers / max(1, item.session.testscollected)
        with self._selector.listening(item.nodeid, min(1.0, progress)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Exclude the time of the checks from the test's duration."""
        report = yield
        if call.when == "call" and self._selector is not None:
            report.duration = max(0.0, report.duration - self._selector.taken())
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Run the tests for the targets after all ordinary tests."""
        try:
            result = yield
        finally:  # if a run is interrupted or stopped by -x, the table shows the checks so far
            if self._selector is not None:
                self._take(*self._selector.results())
            if not self._is_worker and not session.config.option.collectonly:
                self._rows = rows(self._results, self._left_out, self._package)
        if self._unknown and not self._is_worker:
            raise pytest.UsageError(self._unknown)
        if self._rows:
            from .baseline import Baseline

            device = next((report.device for row in self._rows for report in row.reports), "cpu")
            folder = settings.below_root(self._config.rootpath, settings.current.baselines)
            self._baseline = Baseline(folder, device)
            self._run([ExistingItem.of(session, row, self._known(row)) for row in self._rows], session)
        return result

    def _run(self, items: list[ExistingItem], session: pytest.Session) -> None:
        config, chosen = session.config, self._chosen(items, session)
        session.testscollected += len(chosen)  # pytest computes the progress in percent from this number
        for number, item in enumerate(chosen):
            following = chosen[number + 1] if number + 1 < len(chosen) else None
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)

    def _known(self, row: Row) -> str:
        if settings.current.update_baselines and row.verdict not in PASSING:
            return "recorded in the baseline"
        return str(self._baseline.known(row))

    def _chosen(self, items: list[ExistingItem], session: pytest.Session) -> list[ExistingItem]:
        """Return the tests that ``-k`` and conftest files select, with the markers that conftest files add.

        If a conftest file removes a test without reporting it as deselected, the test is kept, because the conftest
        file was written for ordinary tests only. All tests are kept if ``-k`` matches no target, because
        in this case ``-k`` was intended for the tests that make the calls.
        """
        config, left = session.config, list(items)
        self._deselected = set[str]()
        config.hook.pytest_collection_modifyitems(session=session, config=config, items=left)
        chosen = [item for item in items if item.nodeid not in self._deselected]
        return chosen or items

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Record which tests are deselected."""
        self._deselected |= {item.nodeid for item in items}

    def _take(self, results: list[Any], left_out: dict[str, dict[str, int]], seconds: float, problem: str) -> None:
        self._results += results
        self._seconds += seconds
        self._why_not = self._why_not or problem
        for name, reasons in left_out.items():
            own = self._left_out.setdefault(name, {})
            for reason, times in reasons.items():
                own[reason] = own.get(reason, 0) + times

    def pytest_sessionfinish(self) -> None:
        """Send the results of a pytest-xdist worker to the controller."""
        if self._is_worker and self._unknown:
            self._config.workeroutput[_UNKNOWN] = self._unknown  # type: ignore[attr-defined]
        elif self._is_worker and self._selector is not None:
            self._config.workeroutput[_SENT] = pickle.dumps(self._selector.results())  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Receive the results of a pytest-xdist worker."""
        output = getattr(node, "workeroutput", {})
        self._unknown = output.get(_UNKNOWN, self._unknown)
        sent = output.get(_SENT)
        if sent is not None:
            self._take(*pickle.loads(sent))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the table of targets."""
        if self._is_worker or self._unknown or self._config.option.collectonly:
            return
        terminalreporter.section(f"torch.compile: calls to {self._package} in tests")
        if not self._rows:
            terminalreporter.write_line(
                self._why_not or f"no test called a public function, method or class of {self._package}"
            )
            return
        left = sum(1 for reasons in self._left_out.values() if set(reasons) - {LIKE_OTHERS})
        limits = "the time limit or the limit on the number of shapes"
        waiting = f"targets with calls that were not checked because of {limits}: {left}"
        for line in [*table(self._rows, self._seconds, waiting if left else ""), *self._kept()]:
            terminalreporter.write_line(terminal(line))

    def _kept(self) -> Iterator[str]:
        """Yield lines about the comparison with the baseline, the baseline's update, and the test files that were
        written.

        If the run did not finish, yield no lines.
        """
        if self._baseline is None:
            return
        chosen, root = settings.current, self._config.rootpath
        if chosen.update_baselines:
            yield self._baseline.update(self._rows)
        else:
            yield from self._baseline.lines(self._rows)
        if chosen.write_tests:
            from .written import write

            folder = settings.below_root(root, chosen.write_tests)
            yield from write(self._rows, folder, str(chosen.existing), fast=self._backend is None)


def package_and_patterns(given: str) -> tuple[str, tuple[str, ...]]:
    """Parse the value of ``--compile-existing``: a package, such as ``mypackage``, or patterns for public names in one
    package, such as ``mypackage.layers,mypackage.ops.*``. Return the package and the patterns.
    """
    patterns = tuple(part.strip() for part in given.split(",") if part.strip())
    packages = {pattern.partition(".")[0] for pattern in patterns}
    if len(packages) != 1 or not next(iter(packages)).isidentifier():
        raise pytest.UsageError(
            f"--compile-existing={given}: pass one package, or names and patterns that all start with the same package"
        )
    package = packages.pop()
    return package, () if package in patterns else patterns


def is_known(pattern: str) -> bool:
    """Return whether a package, or the part of a pattern before its first wildcard, exists. Names in a package or
    module that has not been imported count as existing, because the plugin does not import it.
    """
    parts = pattern.split(".")
    value: Any = sys.modules.get(parts[0])
    if value is None:
        return importlib.util.find_spec(parts[0]) is not None
    for number, part in enumerate(parts[1:], 2):
        if any(character in part for character in "*?["):
            return True
        try:
            if not hasattr(value, part):
                return importlib.util.find_spec(".".join(parts[:number])) is not None
            value = getattr(value, part)
        except ModuleNotFoundError:
            return False
    return True
