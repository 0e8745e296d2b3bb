"""Count each test's graphs, guards and recompiles. Compare the counts with those stored in the structure baselines and,
if requested, write changes to the baselines.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .. import settings
from ..baselines import files as baselines
from ..baselines import structure
from ..disk import remove_leftovers
from ..events import listening
from ..findings import CompileCheckFailed, CompileReport
from ..report.failure_text import finding_texts
from ..report.safe_text import shell, terminal
from . import outcomes, payload, torchrun, unwritten
from .usage import shows_existing


def begin(config: pytest.Config) -> None:
    """Register the hooks if ``--compile-perf`` or ``--compile-update-baselines`` is set."""
    if settings.current.perf == "off" and not settings.current.update_baselines:
        return
    if torchrun.leads(config):
        remove_leftovers(settings.below_root(config.rootpath, settings.current.baselines), nested=True)
    config.pluginmanager.register(StructureSession(config.rootpath), "torch-compile-structure")


class StructureSession:
    """The hooks for structure baselines.

    Under ``--compile-perf=gate``, a test fails if its checks have a new graph break, or more graphs, recompiles, guards
    or CUDA graph skips than the baseline, even if the test's budget allows them. Other changes are listed at the end.
    """

    def __init__(self, root: Path) -> None:
        self._folder = settings.below_root(root, settings.current.baselines)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Record the counts of a test that passed. Under ``--compile-perf=gate``, compare them with the baseline."""
        if shows_existing(item):  # checks of --compile-existing have a separate baseline
            return (yield)
        from ..plan.records import Plan  # not at the start of every session, which would take longer

        reports: list[CompileReport] = []
        with listening(reports.append):
            result = yield
        reports = [report for report in reports if not isinstance(report, Plan)]  # plans have a separate baseline
        timings = [timing for timing in payload.of(item).timings if "counts" in timing]
        if reports or timings:
            checks = [structure.checked(report.to_dict()) for report in reports]
            entry = structure.entry(item.nodeid, checks, timings[-1]["counts"] if timings else None)
            if reports:
                import torch

                from ..speed.measuring.device_and_versions import environment_of

                environment = baselines.name_of(environment_of(torch.device(reports[-1].device)))
            else:
                environment = timings[-1]["environment"]
            payload.of(item).structure = {"environment": environment, "entry": entry}
            if reports and settings.current.gates:
                self._compare(item.nodeid, environment, entry, reports)
        return result

    def _compare(self, test: str, environment: str, entry: structure.Entry, reports: list[CompileReport]) -> None:
        from ..check.break_findings import graph_break_finding

        stored = baselines.load(self._folder, environment, "structure")
        if stored.problem:
            raise CompileCheckFailed(f"the baseline cannot be used: {stored.problem}", None)
        breaks = {seen.fingerprint: seen for report in reports for seen in report.graph_breaks}
        if test not in stored.entries:
            return
        findings = structure.worse(
            stored.entries[test], entry, lambda name, how_many: graph_break_finding(breaks[name], how_many)
        )
        if findings:
            lines = finding_texts(findings)
            hint = f"If this is intended, run: pytest {shell(test)} --compile-update-baselines"
            raise CompileCheckFailed("\n".join([*lines, f"The baseline is {stored.path}", hint]), None, findings)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the changes to the counts, and write them if requested."""
        not_passed = outcomes.not_passed(terminalreporter)  # the teardown may fail after a call that passed
        by_environment: dict[str, dict[str, structure.Entry]] = {}
        for report, sent in payload.received(terminalreporter):
            if report.passed and sent.structure and report.nodeid not in not_passed:
                entry = sent.structure["entry"]
                by_environment.setdefault(sent.structure["environment"], {})[entry["fullname"]] = entry
        for environment, entries in sorted(by_environment.items()):
            try:
                lines = self._lines(environment, entries)
            except baselines.BaselineError as error:
                unwritten.say(terminalreporter, f"torch.compile structure: baselines not updated: {error}")
                continue
            for line in lines:
                terminalreporter.write_line(terminal(f"torch.compile structure: {line}"))

    def _lines(self, environment: str, entries: Mapping[str, structure.Entry]) -> list[str]:
        """List the changes, and write them if requested.

        Raises:
            BaselineError: If the changes cannot be written.
        """
        if not settings.current.update_baselines:
            stored = baselines.load(self._folder, environment, "structure")
            # The summary of the speed tests shows the changes in the counts of compile_benchmark.
            lines = structure.table(stored.entries, entries, lambda old, new: [])
            return [*lines, *([stored.problem] if stored.problem else [])]

        from ..speed.summary import changed_counts

        def merge(old: Mapping[str, structure.Entry]) -> Mapping[str, structure.Entry | None]:
            # Without --compile-perf, compile_benchmark does not count kernels or memory, so keep the stored counts.
            counts = {test: {"counts": one["counts"]} for test, one in old.items() if "counts" in one}
            return {test: {**counts.get(test, {}), **entry} for test, entry in entries.items()}

        done = baselines.update(self._folder, environment, merge, "structure")
        before, after = (
            {row.test: entry for row in done.rows if (entry := getattr(row, side))} for side in ("before", "after")
        )
        lines = structure.table(before, after, changed_counts)
        kept = [f"the old file could not be read and was moved to {done.kept}"] if done.kept else []
        return [*lines, *kept, str(done)]
