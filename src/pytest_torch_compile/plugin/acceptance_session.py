"""Allow the graph breaks and recompiles listed in ``compile-accepted.json``. ``--compile-accept`` updates this file."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from .. import settings
from ..check import acceptance
from ..observation import file_line
from ..report.results import relative
from ..report.safe_text import terminal
from . import known_failure, payload, unwritten
from .in_child import is_child

_RUNNING: pytest.StashKey[acceptance.Acceptance] = pytest.StashKey()
_NOTHING: acceptance.Entry = {"breaks": {}, "recompiles": {}}


def begin(config: pytest.Config) -> None:
    """Register the hooks if ``compile-accepted.json`` exists or ``--compile-accept`` is set."""
    if settings.current.accept or (config.rootpath / acceptance.FILE_NAME).exists():
        config.pluginmanager.register(AcceptanceSession(config.rootpath), "torch-compile-accept")


class AcceptanceSession:
    """The hooks for ``compile-accepted.json``.

    Only the entries of tests that ran and passed are changed, because it is unknown which entries the other tests need.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / acceptance.FILE_NAME
        self._entries, self._problem = acceptance.load(self._path)
        try:  # the version of torch, such as ``2.13``, without an import of torch
            self._torch = ".".join(metadata.version("torch").split("+")[0].split(".")[:2])
        except metadata.PackageNotFoundError:
            self._torch = "0"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Allow the test's accepted graph breaks and recompiles in the checks of its fixtures."""
        entry = self._entries.get(item.nodeid, _NOTHING)
        allowed = acceptance.allowed_recompiles(entry, self._torch)
        item.stash[_RUNNING] = acceptance.Acceptance(frozenset(entry["breaks"]), allowed)
        with _in_force(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Allow the test's accepted graph breaks and recompiles."""
        with _in_force(item):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Allow the test's accepted graph breaks and recompiles in checks that end during the teardown, and then record
        all graph breaks and recompiles of the test that exceed its limits.
        """
        with _in_force(item) as running:
            result = yield
        if running.found_breaks or running.found_recompiles or item.nodeid in self._entries:
            breaks = {
                name: {
                    "location": file_line(relative(seen["file"], self._root), seen["line"]),
                    "reason": seen["reason"],
                }
                for name, seen in running.found_breaks.items()
            }
            payload.of(item).accepted = {"breaks": breaks, "recompiles": running.found_recompiles}
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the entries that are no longer needed or, with ``--compile-accept``, write the changed entries."""
        if is_child(terminalreporter.config) or terminalreporter.config.option.collectonly:
            return
        others = _not_passed(terminalreporter)
        noted: dict[str, acceptance.Entry] = {
            report.nodeid: sent.accepted
            for report, sent in payload.received(terminalreporter)
            if sent.accepted is not None and report.nodeid not in others
        }
        lines = []
        with unwritten.saying(terminalreporter, "torch.compile accepted: not written"):
            lines = self._write(noted) if settings.current.accept else self._stale(noted)
        if self._problem and not settings.current.accept:
            lines.insert(0, f"{self._problem}; no graph breaks or recompiles were accepted")
        for line in lines:
            terminalreporter.write_line(terminal(f"torch.compile accepted: {line}"))

    def _stale(self, noted: Mapping[str, acceptance.Entry]) -> list[str]:
        lines = [
            f"{test}: no longer needed: {line}"
            for test, now in sorted(noted.items())
            if test in self._entries
            for line in acceptance.stale(self._entries[test], now, self._torch)
        ]
        return [*lines, "run with --compile-accept to remove these entries"] if lines else []

    def _write(self, noted: Mapping[str, acceptance.Entry]) -> list[str]:
        after = {test: acceptance.merged(self._entries.get(test), now, self._torch) for test, now in noted.items()}
        changed = {test: entry for test, entry in after.items() if entry != self._entries.get(test)}
        if not changed:
            if self._path.exists():
                return [f"{self._path.name} is unchanged"]
            return [f"nothing to accept in the tests that passed; {self._path.name} was not written"]
        kept = acceptance.update(self._path, changed)
        lines = [f"the old file could not be read and was moved to {kept}"] if kept else []
        for test, entry in sorted(changed.items()):
            lines += [f"{test}: {line}" for line in _changes(self._entries.get(test) or _NOTHING, entry or _NOTHING)]
        return [*lines, f"written to {self._path}"]


@contextmanager
def _in_force(item: pytest.Item) -> Iterator[acceptance.Acceptance]:
    """Apply the test's accepted graph breaks and recompiles to the checks inside the ``with`` block."""
    running = item.stash[_RUNNING]
    # Failures that a marker expects must not be accepted. A fixture or a test may add such a marker.
    running.accepting = settings.current.accept and not (known_failure.read(item) or _expects_failure(item))
    with acceptance.in_force(running):
        yield running


def _expects_failure(item: pytest.Item) -> bool:
    """Return whether a test has an ``xfail`` marker that applies. The condition of a marker may be a string, which only
    pytest can evaluate, and then the marker is taken to apply.
    """
    for marker in item.iter_markers("xfail"):
        conditions = [*marker.args, *([marker.kwargs["condition"]] if "condition" in marker.kwargs else [])]
        if not conditions or any(isinstance(condition, str) or condition for condition in conditions):
            return not item.config.getoption("runxfail", False)
    return False


def _not_passed(terminalreporter: pytest.TerminalReporter) -> set[str]:
    """Return the ids of the tests of which a phase or a subtest did not pass, or failed or passed despite ``xfail``."""
    return {
        report.nodeid
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and (report.failed or report.skipped or hasattr(report, "wasxfail"))
    }


def _changes(old: acceptance.Entry, new: acceptance.Entry) -> list[str]:
    """Return one line for each change to a test's entry."""
    lines = [
        f"{sign} {name} at {place['location']} ({place['reason']})"
        for sign, breaks, others in (("+", new["breaks"], old["breaks"]), ("-", old["breaks"], new["breaks"]))
        for name, place in breaks.items()
        if name not in others
    ]
    for torch in sorted({*old["recompiles"], *new["recompiles"]}):
        before, now = old["recompiles"].get(torch, 0), new["recompiles"].get(torch, 0)
        lines += [f"recompiles {before} -> {now} on torch {torch}"] if before != now else []
    return lines or ["the locations, reasons or torch versions of accepted graph breaks changed"]
