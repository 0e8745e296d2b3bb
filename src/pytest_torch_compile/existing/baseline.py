"""Compare the results of ``--compile-existing`` with the stored results of an earlier run. A target (a public function,
method or class) that worked in the earlier run must still work; a target that failed in the earlier run is expected to
fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..baselines import files as baselines
from .verdicts import PASSING, SO_FAR, UNCHECKED, VERDICTS, WORKS, Row

Entry = dict[str, Any]


class Baseline:
    """The stored results of ``--compile-existing`` in one environment (device, torch version and CUDA version)."""

    def __init__(self, folder: Path, device: str) -> None:
        import torch

        from ..speed.measuring.device_and_versions import environment_of

        self._folder = folder
        self._environment = baselines.name_of(environment_of(torch.device(device)))
        self.stored = baselines.load(folder, self._environment, "existing")

    def known(self, row: Row) -> str:
        """Return the reason why a target's failure is expected, if the baseline contains the failure. Return an empty
        string if the failure is new, or worse than in the baseline.
        """
        entry = self.stored.entries.get(row.test)
        if entry is None or row.verdict in PASSING:
            return ""
        if VERDICTS.index(row.verdict) > VERDICTS.index(entry["verdict"]):
            return ""
        now = _entry(row)
        if not set(now["breaks"]) <= set(entry["breaks"]) or not set(now["kinds"]) <= set(entry["kinds"]):
            return ""
        return f"as recorded in the baseline: {entry['verdict']}"

    def lines(self, rows: Sequence[Row]) -> list[str]:
        """Return lines about targets that are better than in the baseline, and about targets that worked in the
        baseline but were not checked in this run. If the baseline is unreadable, the first line is the reason.
        """
        entries, lines = self.stored.entries, [self.stored.problem] if self.stored.problem else []
        by_test = {row.test: row for row in rows}
        for test, entry in entries.items():
            row = by_test.get(test)
            if row is None or row.verdict == UNCHECKED:
                lines += [f"{test} was not checked in this run (baseline: works)"] * (entry["verdict"] == WORKS)
            elif entry["verdict"] not in PASSING and VERDICTS.index(row.verdict) < VERDICTS.index(entry["verdict"]):
                lines.append(f"{test}: {row.verdict} (baseline: {entry['verdict']})")
        return lines

    def update(self, rows: Iterable[Row]) -> str:
        """Store the results of all checked targets, and keep the stored results of all other targets. Also keep a
        target's stored result if no check of the target failed but some of its calls were skipped, because a skipped
        call may fail.
        """
        entries = {row.test: _entry(row) for row in rows if row.verdict != UNCHECKED}

        def merge(old: Mapping[str, Entry]) -> Mapping[str, Entry | None]:
            return {test: entry for test, entry in entries.items() if entry["verdict"] != SO_FAR or test not in old}

        return str(baselines.update(self._folder, self._environment, merge, "existing"))


def _entry(row: Row) -> Entry:
    breaks = {found.fingerprint for report in row.reports for found in report.graph_breaks}
    kinds = {finding.kind for finding in row.findings}
    return {
        "fullname": row.test,
        "verdict": row.verdict,
        "breaks": sorted(breaks) if row.verdict not in PASSING or breaks else [],
        "kinds": sorted(kinds),
    }
