"""What is exact about a test: graphs, ops, breaks, recompiles and kernels, against the stored ones. Plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..findings import Finding

Entry = dict[str, Any]
Checked = dict[str, Any]


def checked(report: Mapping[str, Any]) -> Checked:
    """What is exact about one check, from its report's ``to_dict()``. ``graphs`` holds the ops of each graph."""
    observed = report["observation"]
    return {
        "target": report["target"],
        "backend": report["backend"],
        "checked_mode": report["checked_mode"],
        "graphs": [len(graph["ops"]) for graph in observed["graphs"]],
        "graph_breaks": sorted(one["fingerprint"] for one in observed["graph_breaks"]),
        "recompiles": len(observed["recompiles"]),
        "cudagraph_skips": len(observed["cudagraph_skips"]),
    }


def entry(test: str, checks: Sequence[Checked], kernels: Sequence[Sequence[int]] = ()) -> Entry:
    """The baseline entry of a test; ``kernels`` are those per call, eager and compiled, of each of its timings."""
    return {"fullname": test, "checks": list(checks), "kernels": [list(pair) for pair in kernels]}


def differences(before: Entry, after: Entry) -> list[str]:
    """One line for each exact figure that is not what it was."""
    lines = []
    for old, new, name in _pairs(before, after):
        for key, title in _TITLES.items():
            if old[key] != new[key]:
                lines.append(f"{name}{title} {_shown(key, old[key])} -> {_shown(key, new[key])}")
    if len(before["checks"]) != len(after["checks"]):
        lines.append(f"checks {len(before['checks'])} -> {len(after['checks'])}")
    if before["kernels"] != after["kernels"]:
        lines.append(f"kernels per call, eager > compiled: {_kernels(before)} -> {_kernels(after)}")
    return lines


def worse(before: Entry, after: Entry, break_finding: Callable[[str, str], Finding]) -> list[Finding]:
    """Graph breaks that are not stored, and recompiles beyond the stored ones: allowed by the budget, but new.

    ``break_finding`` makes the finding of a break from its fingerprint, which is all that a baseline keeps of it, and
    the text that says how many are too many.
    """
    findings = []
    for old, new, name in _pairs(before, after):
        breaks: list[str] = sorted((Counter(new["graph_breaks"]) - Counter(old["graph_breaks"])).elements())
        text = f"{name}{len(new['graph_breaks'])} graph breaks, {len(breaks)} of them not in the baseline"
        findings += [break_finding(fingerprint, text) for fingerprint in breaks]
        if new["recompiles"] > old["recompiles"]:
            text = f"{name}{new['recompiles']} recompiles, the baseline has {old['recompiles']}"
            findings.append(Finding("recompile", text))
    return findings


def table(stored: Mapping[str, Entry], now: Mapping[str, Entry]) -> list[str]:
    """One line for each test whose structure is not the stored one."""
    changed = {test: "; ".join(differences(stored[test], now[test])) for test in sorted(stored.keys() & now.keys())}
    return [f"{test}: {text}" for test, text in changed.items() if text]


_TITLES = {
    "graphs": "ops of each graph",
    "graph_breaks": "graph breaks",
    "recompiles": "recompiles",
    "cudagraph_skips": "CUDA graph skips",
}


def _pairs(before: Entry, after: Entry) -> list[tuple[Checked, Checked, str]]:
    """The checks of a test in order, where both are of one target in one mode."""
    many = max(len(before["checks"]), len(after["checks"])) > 1
    return [
        (old, new, f"check {number}, {new['target']}: " if many else "")
        for number, (old, new) in enumerate(zip(before["checks"], after["checks"], strict=False), 1)
        if all(old[key] == new[key] for key in ("target", "backend", "checked_mode"))
    ]


def _shown(key: str, value: Any) -> str:
    if key == "graph_breaks":
        return str(len(value))
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _kernels(entry: Entry) -> str:
    return ", ".join(" > ".join(map(str, pair)) for pair in entry["kernels"]) or "none"
