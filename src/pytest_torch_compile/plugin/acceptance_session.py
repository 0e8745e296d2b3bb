"""``--compile-accept`` in a session: what is accepted reaches the tests, and what changed is written at the end."""

from __future__ import annotations

from collections.abc import Generator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from .. import settings
from ..baselines import files as baselines
from ..check import acceptance
from ..report.records import relative
from . import isolate, known_failure

_RUNNING: pytest.StashKey[acceptance.Acceptance] = pytest.StashKey()
_REPORTED = "torch_compile_accepted"


class AcceptanceSession:
    """Registered where the file is there or asked for.

    Only tests that ran and passed change the file: what others would need is not known.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = root / acceptance.FILE_NAME
        self._entries, self._problem = acceptance.load(self._path)
        self._torch = _torch_minor()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Hold the test's checks to what is accepted for it."""
        entry = self._entries.get(item.nodeid, {"breaks": {}, "recompiles": {}})
        # What a marker says must fail is not to be accepted away.
        accepting = settings.current.accept and not known_failure.read(item)
        allowed = acceptance.allowed_recompiles(entry, self._torch)
        item.stash[_RUNNING] = acceptance.Acceptance(frozenset(entry["breaks"]), allowed, accepting)
        with acceptance.in_force(item.stash[_RUNNING]):
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send with the report what the test has over its own budget."""
        report = yield
        running = item.stash.get(_RUNNING, None)
        if call.when == "call" and report.passed and running is not None:
            breaks = {name: self._shown(found) for name, found in running.found_breaks.items()}
            if breaks or running.found_recompiles or item.nodeid in self._entries:
                vars(report)[_REPORTED] = {"breaks": breaks, "recompiles": running.found_recompiles}
        return report

    def _shown(self, found: dict[str, str]) -> dict[str, str]:
        return {"location": f"{relative(found['file'], self._root)}:{found['line']}", "reason": found["reason"]}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what is not needed any more, or write what changed."""
        if isolate.is_child():
            return
        reports = [r for found in terminalreporter.stats.values() for r in found if hasattr(r, _REPORTED)]
        found = {report.nodeid: getattr(report, _REPORTED) for report in reports}
        lines = self._write(found) if settings.current.accept else self._stale(found)
        if self._problem and not settings.current.accept:
            lines.insert(0, f"{self._problem}; nothing of it was accepted")
        for line in lines:
            terminalreporter.write_line(f"torch.compile accepted: {line}")

    def _stale(self, found: dict[str, acceptance.Entry]) -> list[str]:
        lines = [
            f"{test}: no longer needed: {line}"
            for test, now in sorted(found.items())
            if test in self._entries
            for line in acceptance.stale(self._entries[test], now, self._torch)
        ]
        return [*lines, "--compile-accept takes away what is no longer needed"] if lines else []

    def _write(self, found: dict[str, acceptance.Entry]) -> list[str]:
        after = {test: acceptance.merged(self._entries.get(test), now, self._torch) for test, now in found.items()}
        changed = {test: entry for test, entry in after.items() if entry != self._entries.get(test)}
        if not changed:
            return [f"nothing changed in {self._path.name}"]
        try:
            kept = acceptance.update(self._path, changed)
        except baselines.BaselineError as error:
            return [f"not written: {error}"]
        lines = [f"the old file could not be read; it was kept as {kept}"] if kept else []
        for test, entry in sorted(changed.items()):
            lines += [f"{test}: {line}" for line in _changes(self._entries.get(test), entry)]
        return [*lines, f"written to {self._path}"]


def _changes(before: acceptance.Entry | None, after: acceptance.Entry | None) -> list[str]:
    """What an update did to the entry of one test."""
    nothing: acceptance.Entry = {"breaks": {}, "recompiles": {}}
    old, new = before or nothing, after or nothing
    lines = [
        f"+ {name} at {b['location']} ({b['reason']})" for name, b in new["breaks"].items() if name not in old["breaks"]
    ]
    lines += [
        f"- {name} at {b['location']} ({b['reason']})" for name, b in old["breaks"].items() if name not in new["breaks"]
    ]
    for torch in sorted({*old["recompiles"], *new["recompiles"]}):
        counts = old["recompiles"].get(torch, 0), new["recompiles"].get(torch, 0)
        lines += [f"recompiles {counts[0]} -> {counts[1]} on torch {torch}"] if counts[0] != counts[1] else []
    return lines or ["places or torch versions of its breaks"]


def _torch_minor() -> str:
    """The version of the installed torch, without importing it: ``2.13``."""
    try:
        return ".".join(metadata.version("torch").split("+")[0].split(".")[:2])
    except metadata.PackageNotFoundError:
        return "0"
