"""The structure baselines in a session: hooks that note what is exact, hold tests to it, and write it."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .. import settings
from ..baselines import files as baselines
from ..baselines import structure
from ..check.judge import graph_break_finding
from ..events import listening
from ..findings import CompileCheckFailed
from ..observation import GraphBreak
from ..report.text import finding_text

if TYPE_CHECKING:
    from ..findings import CompileReport

_CHECKED: pytest.StashKey[Sequence[structure.Checked]] = pytest.StashKey()
_ENVIRONMENT: pytest.StashKey[str] = pytest.StashKey()
_BREAKS: pytest.StashKey[Mapping[str, GraphBreak]] = pytest.StashKey()
_REPORTED = "torch_compile_structure"


class StructureSession:
    """Registered while ``--compile-perf`` or ``--compile-update-baselines`` asks for baselines.

    Under ``gate`` a test fails whose checks have a graph break that is not stored, or more recompiles than stored,
    although its budget allows them. Any other change is a line at the end.
    """

    def __init__(self, root: Path) -> None:
        self._folder = settings.below_root(root, settings.current.baselines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Note the checks of a test that passed, and hold them to the baseline."""
        seen: list[structure.Checked] = []
        item.stash[_CHECKED] = seen
        breaks: dict[str, GraphBreak] = {}
        item.stash[_BREAKS] = breaks

        def hear(report: CompileReport) -> None:
            seen.append(structure.checked(report.to_dict()))
            item.stash[_ENVIRONMENT] = _environment(report.device)
            breaks.update({found.fingerprint: found for found in report.graph_breaks})

        with listening(hear):
            result = yield
        if seen and settings.current.perf == "gate" and not settings.current.update_baselines:
            self._hold(item)
        return result

    def _hold(self, item: pytest.Item) -> None:
        stored = baselines.load(self._folder, item.stash[_ENVIRONMENT], "structure")
        before = stored.entries.get(item.nodeid)
        now = structure.entry(item.nodeid, item.stash[_CHECKED])
        breaks = item.stash[_BREAKS]
        found = (
            structure.worse(before, now, lambda name, more: graph_break_finding(breaks[name], more)) if before else []
        )
        if found:
            lines = [finding_text(number, each) for number, each in enumerate(found, 1)]
            hint = f"If this is meant: pytest '{item.nodeid}' --compile-update-baselines"
            raise CompileCheckFailed("\n".join([*lines, f"The baseline is {stored.path}", hint]), None, found)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send what was noted with the report."""
        report = yield
        if call.when == "call":
            timings = _timings(item)
            kernels = [t["sample"]["kernels"] for t in timings if (t.get("sample") or {}).get("kernels")]
            environment = item.stash.get(_ENVIRONMENT, "") or next((t["environment"] for t in timings), "")
            if item.stash.get(_CHECKED, []) or kernels:
                made = structure.entry(item.nodeid, item.stash[_CHECKED], kernels)
                vars(report)[_REPORTED] = {"environment": environment, "entry": made}
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what changed, and write it if asked to."""
        reports = [r for found in terminalreporter.stats.values() for r in found if hasattr(r, _REPORTED)]
        by_environment: dict[str, dict[str, structure.Entry]] = {}
        for report in reports:
            sent = getattr(report, _REPORTED)
            if report.passed:
                by_environment.setdefault(sent["environment"], {})[sent["entry"]["fullname"]] = sent["entry"]
        for environment, seen in sorted(by_environment.items()):
            for line in self._lines(environment, seen):
                terminalreporter.write_line(f"torch.compile structure: {line}")

    def _lines(self, environment: str, seen: Mapping[str, structure.Entry]) -> list[str]:
        stored = baselines.load(self._folder, environment, "structure")
        lines = structure.table(stored.entries, seen)
        if not settings.current.update_baselines:
            return [*lines, *([stored.problem] if stored.problem else [])]
        try:
            done = baselines.update(self._folder, environment, lambda old: dict(seen), "structure")
        except baselines.BaselineError as error:
            return [f"baselines not updated: {error}"]
        kept = [f"the old file could not be read; it was kept as {done.kept}"] if done.kept else []
        return [*lines, *kept, f"{done.path}: {len(done.rows) or 'no'} entries changed"]


def _environment(device: str) -> str:
    import torch

    from ..speed.measuring.bench import environment_of

    found = environment_of(torch.device(device))
    return baselines.environment_name(found["device"], found["torch"], found["cuda"])


def _timings(item: pytest.Item) -> list[dict[str, Any]]:
    if "compile_benchmark" not in getattr(item, "fixturenames", ()):
        return []
    from .benchmark import RESULTS

    return item.stash.get(RESULTS, [])
