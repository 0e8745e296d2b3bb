"""Compute the values that several output formats show: verdicts, findings in order of severity, and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..findings import SEVERITIES
from . import document
from .failure_text import count
from .table_of_checks import USAGE_ERROR

# Counts whose unit is a byte.
IN_BYTES = frozenset({"memory", "bytes_moved"})
VERDICTS = {
    "passed": "pass",
    "failed": "fail",
    "error": "error",
    "skipped": "skipped",
    "xfailed": "known failure",
}
RESULTS = {
    "passed": "All checks passed",
    "failed": "Some checks failed",
    "error": "The run did not finish",
    "empty": "No test used the plugin",
}


_NOTHING_MORE: dict[str, Any] = {"location": None, "evidence": "", "hint": ""}


@dataclass(frozen=True)
class Found:
    """One finding, with its test and its check; ``check`` is None for a failure that no check reported."""

    test: Mapping[str, Any]
    check: Mapping[str, Any] | None
    finding: Mapping[str, Any]

    @property
    def file(self) -> str:
        """The file to show: the finding's file or, if the finding has no location, the test's file."""
        return str(self._place["file"])

    @property
    def line(self) -> int:
        """The line number in ``file``."""
        return int(self._place["line"])

    @property
    def _place(self) -> Mapping[str, Any]:
        return self.finding["location"] or self.test


def rank(kind: str) -> int:
    """Return the severity of a kind of finding; 0 is the most severe."""
    return next((severity for severity, kinds in enumerate(SEVERITIES) if kind in kinds), len(SEVERITIES))


def findings(made: Mapping[str, Any]) -> list[Found]:
    """Return the findings of failed tests, worst first. Tests that are expected to fail are omitted."""
    bad = [test for test in made["tests"] if test["outcome"] in ("failed", "error")]
    return sorted((found for test in bad for found in _of(test)), key=lambda found: rank(found.finding["kind"]))


def _of(test: Mapping[str, Any]) -> Iterator[Found]:
    found = [Found(test, check, finding) for check in test["checks"] for finding in check["findings"]]
    slower = [speed["summary"] for speed in test["speed"] if speed["outcome"] == "regressed"]
    found += [Found(test, None, {"kind": "slowdown", "message": text, **_NOTHING_MORE}) for text in slower]
    if not found:
        first, *others = test["message"].strip().splitlines() or ["no message"]
        kind = USAGE_ERROR if test.get("usage_error") else test["outcome"]
        bare = {**_NOTHING_MORE, "kind": kind, "message": first[:500], "evidence": "\n".join(others[:39])}
        found = [Found(test, None, bare)]
    yield from found


def sentence(made: Mapping[str, Any]) -> str:
    """Return the report's summary in one line."""
    figures = made["summary"]
    parts = [count(figures["tests"], "test")]
    named = {"failed": "failed", "error": "with errors", "xfailed": "known to fail", "skipped": "skipped"}
    parts += [f"{figures[name]} {words}" for name, words in named.items() if figures[name]]
    parts += [count(figures["graph_breaks"], "graph break"), count(figures["recompiles"], "recompile")]
    if figures["regressions"]:
        parts.append(count(figures["regressions"], "regression"))
    if figures["speedup"]:
        parts.append(f"speedup {figures['speedup']:.2f}x over eager")
    return ", ".join(parts)


def row(test: Mapping[str, Any]) -> dict[str, Any]:
    """Return a test's values for a table; a missing value is None."""
    checks: Sequence[Mapping[str, Any]] = test["checks"]
    ratios = [c["numerics"]["worst_ratio"] for c in checks if c["numerics"]["leaves"]]
    known = [ratio for ratio in ratios if ratio is not None]
    waived = sum(len(c["numerics"].get("not_compared", ())) for c in checks)
    speeds = [speed for speed in test["speed"] if speed["speedup"]]
    graphs = [graph for check in checks for graph in check["graphs"]]
    return {
        "verdict": VERDICTS[test["outcome"]] + (f", {waived} not compared" if waived else ""),
        "graphs": len(graphs) if checks else None,
        "ops": sum(graph["ops"] for graph in graphs) if checks else None,
        "breaks": sum(len(check["graph_breaks"]) for check in checks) if checks else None,
        "recompiles": sum(len(check["recompiles"]) for check in checks) if checks else None,
        "ratio": math.inf if len(known) < len(ratios) else max(known, default=None),
        "seconds": sum(map(document.compile_seconds, checks)) if checks else None,
        "speedup": speeds[0]["speedup"] if speeds else None,
    }


def graphs(check: Mapping[str, Any]) -> str:
    """Describe a check's graphs, as ``2 with 14 ops and 31 guards``; guards are omitted if their number is unknown."""
    guards = [graph.get("guards") for graph in check["graphs"]]
    parts = [count(sum(graph["ops"] for graph in check["graphs"]), "op")]
    parts += [count(sum(guards), "guard")] if guards and None not in guards else []
    return f"{len(guards)} with {' and '.join(parts)}"


def duration(seconds: float) -> str:
    """Format a time: ``12.3 us``, ``4.56 ms``, ``7.8 s``."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.1f} s"


def size(number: float) -> str:
    """Format a number of bytes as decimal megabytes, such as ``12.3 MB``."""
    return f"{number / 1e6:,.1f} MB"


def percent(log_ratio: float) -> str:
    """Format a log ratio as a signed percentage."""
    return f"{100 * math.expm1(log_ratio):+.1f}%"


def difference(exact: Mapping[str, Any]) -> str:
    """Format a change in a count, such as the number of kernels: its name, and its values before and after."""
    before, after = (counted(exact["quantity"], exact[name]) for name in ("before", "after"))
    if before == after:  # a difference of a few bytes is too small for megabytes
        before, after = f"{exact['before']:,}", f"{exact['after']:,} bytes"
    return f"{exact['title']} {before} -> {after}"


def counted(quantity: str, value: int) -> str:
    """Format a count: bytes as megabytes, and all other quantities with thousands separators."""
    return size(value) if quantity in IN_BYTES else f"{value:,}"


def plans(test: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the figures of a test's plans. These figures are not measured, but are computed from the code that is
    generated for a GPU.
    """
    return [check["plan"] for check in test["checks"] if "plan" in check]
