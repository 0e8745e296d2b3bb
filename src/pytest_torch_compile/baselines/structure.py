"""Compare the counts of a test, such as its number of recompiles, with the stored counts. A test's checks
(``check_compile``) and its speed measurements both produce counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..findings import Finding, FindingKind
from . import files

# The tolerance for guards: the larger of a fraction of the stored number, and a number. Between 25 successive releases
# of transformers, 41 of 144 comparisons found up to 55 more guards and no other cost (docs/study-of-the-gate.md), and
# 64 guards take about 3 us per call.
GUARDS_SHARE, GUARDS_NUMBER = 0.05, 64

Entry = dict[str, Any]
Checked = dict[str, Any]
# The recorded values of each quantity in a test's speed measurements, and the Python version.
Counts = Mapping[str, Any]
# For each count of a check: its title, and the kind of finding to report if the count exceeds the stored count.
_COUNTED: dict[str, tuple[str, FindingKind]] = {
    "recompiles": ("recompiles", "recompile"),
    "cudagraph_skips": ("CUDA graph skips", "cudagraph-skip"),
    "guards": ("guards", "structure"),
}


def checked(report: Mapping[str, Any]) -> Checked:
    """Return the counts of one check. ``report`` is the check's report, as returned by ``to_dict()``. In the result,
    ``graphs`` lists the number of ops in each graph.
    """
    observed = report["observation"]
    guards = [graph.get("guards") for graph in observed["graphs"]]
    return {
        "target": report["target"],
        "backend": report["backend"],
        "checked_mode": report["checked_mode"],
        "graphs": [len(graph["ops"]) for graph in observed["graphs"]],
        "graph_breaks": sorted(one["fingerprint"] for one in observed["graph_breaks"]),
        "recompiles": len(observed["recompiles"]),
        "cudagraph_skips": len(observed["cudagraph_skips"]),
        **({} if None in guards else {"guards": sum(guards)}),
    }


def entry(test: str, checks: Sequence[Checked], counts: Mapping[str, Any] | None = None) -> Entry:
    """Create a test's baseline entry. ``counts`` maps each quantity in the test's speed measurements, such as
    ``kernels``, to its recorded values. In addition, ``counts["python"]`` is the Python version.
    """
    return {"fullname": test, "checks": list(checks), **({"counts": dict(counts)} if counts else {})}


def counts_of(stored: Entry | None, python: str) -> dict[str, list[int]]:
    """Return all stored counts from the test's speed measurements. The numbers of Python calls are included only if
    they were recorded with the Python version ``python``.
    """
    counts = dict((stored or {}).get("counts", {}))
    if counts.pop("python", python) != python:
        counts.pop("python_calls", None)
    return counts


def memory_of_tests(folder: Path) -> dict[str, int]:
    """Return the largest stored peak memory, in bytes, of each speed test with a baseline below ``folder``. For a test
    whose baseline has other counts only, assume the largest memory of the tests in the same file.
    """
    largest: dict[str, int] = {}
    for path in folder.glob("*/structure.json"):
        for test, entry in files.load(folder, path.parent.name, "structure").entries.items():
            if counts := entry.get("counts"):
                largest[test] = max([largest.get(test, 0), *counts.get("memory", ())])
    of_file: dict[str, int] = {}
    for test, memory in largest.items():
        of_file[_file(test)] = max(of_file.get(_file(test), 0), memory)
    return {test: memory or of_file[_file(test)] for test, memory in largest.items() if of_file[_file(test)]}


def _file(test: str) -> str:
    return test.partition("::")[0]


def differences(before: Entry, after: Entry) -> list[str]:
    """Compare the counts of two entries, and return one line for each count that differs."""
    lines = []
    for old, new, name in _pairs(before, after):
        ops, breaks = (old["graphs"], new["graphs"]), (old["graph_breaks"], new["graph_breaks"])
        if ops[0] != ops[1]:
            lines.append(f"{name}ops in each graph: {' -> '.join(', '.join(map(str, one)) or 'none' for one in ops)}")
        if breaks[0] != breaks[1]:
            lines.append(f"{name}graph breaks {len(breaks[0])} -> {len(breaks[1])}")
        for key, (title, _) in _COUNTED.items():
            if key in old and key in new and old[key] != new[key]:
                lines.append(f"{name}{title} {old[key]} -> {new[key]}")
    if len(before["checks"]) != len(after["checks"]):
        lines.append(f"checks {len(before['checks'])} -> {len(after['checks'])}")
    return lines


def worse(before: Entry, after: Entry, break_finding: Callable[[str, str], Finding]) -> list[Finding]:
    """Return a finding for each count that is higher in ``after`` than in ``before``, even if the check's budget allows
    the higher count. Only the number of guards has a tolerance.

    ``break_finding`` creates the finding for a new graph break from the break's fingerprint and a message that contains
    the number of breaks.
    """
    findings = []
    for old, new, name in _pairs(before, after):
        breaks: list[str] = sorted((Counter(new["graph_breaks"]) - Counter(old["graph_breaks"])).elements())
        text = f"{name}{len(new['graph_breaks'])} graph breaks ({len(breaks)} not in the baseline)"
        findings += [break_finding(fingerprint, text) for fingerprint in breaks]
        counted = {"graphs": ("graphs", "structure"), **_COUNTED}
        for key, (title, kind) in counted.items():
            one, other = (len(at[key]) if key == "graphs" else at.get(key) for at in (old, new))
            # A graph break also increases the number of graphs.
            tolerance = max(GUARDS_NUMBER, GUARDS_SHARE * one) if one is not None and key == "guards" else 0
            if one is not None and other is not None and other > one + tolerance and not (key == "graphs" and breaks):
                findings.append(Finding(kind, f"{name}{other} {title}, but the baseline has {one}"))
    return findings


def table(
    stored: Mapping[str, Entry], now: Mapping[str, Entry], changed_counts: Callable[[Counts, Counts], Sequence[str]]
) -> list[str]:
    """Return one line for each test that has different counts in ``stored`` and ``now``.

    ``changed_counts`` describes the differences between the counts of a test's speed measurements.
    """
    lines = []
    for test in sorted(stored.keys() & now.keys()):
        old, new = stored[test], now[test]
        changes = [*differences(old, new), *changed_counts(old.get("counts", {}), new.get("counts", {}))]
        if changes:
            lines.append(f"{test}: {'; '.join(changes)}")
    return lines


def _pairs(before: Entry, after: Entry) -> list[tuple[Checked, Checked, str]]:
    """Pair a test's old and new checks, in order. Pairs that differ in target, backend or mode are omitted."""
    many = max(len(before["checks"]), len(after["checks"])) > 1
    return [
        (old, new, f"check {number}, {new['target']}: " if many else "")
        for number, (old, new) in enumerate(zip(before["checks"], after["checks"], strict=False), 1)
        if all(old[key] == new[key] for key in ("target", "backend", "checked_mode"))
    ]
