"""Create the terminal summary: one aligned row for each check, rendered with rich."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .failure_text import count
from .names import shortened
from .safe_text import terminal

USAGE_ERROR = "usage-error"
COLUMNS = ("check", "graphs", "ops", "breaks", "recompiles", "worst error / limit", "compile s", "verdict")


def row(test: str, report: dict[str, Any]) -> dict[str, str]:
    """Create a check's table row from its report's ``to_dict()``. A row contains only strings, so it can be sent to
    another process.
    """
    seen, numerics, seconds = report["observation"], report["numerics"], report["observation"]["compile_seconds"]
    not_compared = numerics["not_compared"]
    kinds = ", ".join(sorted({finding["kind"] for finding in report["findings"]}))
    return {
        "check": f"{test} [{report['target']}]",
        "graphs": str(len(seen["graphs"])),
        "ops": str(sum(len(graph["ops"]) for graph in seen["graphs"])),
        "breaks": str(len(seen["graph_breaks"])),
        "recompiles": str(len(seen["recompiles"])),
        "worst error / limit": f"{numerics['worst_ratio']:.2g}" if numerics["leaves"] else "-",
        "compile s": f"{seconds['total'] + seconds['backward']:.1f}",
        "verdict": kinds or (f"pass, {len(not_compared)} not compared" if not_compared else "pass"),
        "kinds": kinds,
        "not observable": "\n".join(seen["not_observable"]),
        "not compared": "\n".join(not_compared),
        "remarks": "\n".join(report["remarks"]),
    }


def usage_error(test: str) -> dict[str, str]:
    """Create the row for a test that called the plugin incorrectly; the row has no counts."""
    nothing = dict.fromkeys(COLUMNS, "-") | dict.fromkeys(("kinds", "not observable", "not compared", "remarks"), "")
    return {**nothing, "check": test, "verdict": USAGE_ERROR, "kinds": USAGE_ERROR}


def expected(row: Mapping[str, str], why: str) -> dict[str, str]:
    """Return a check's row, with ``why`` as the verdict if the check failed."""
    return {**row, "verdict": f"{why} ({row['kinds']})"} if row["kinds"] else {**row}


def table(rows: Iterable[dict[str, str]], width: int) -> str:
    """Return all rows as one table that is ``width`` characters wide. After the table, there is one line for each note,
    for each piece of information that a check could not observe, and for each check that could not compare all results.

    Long check names are shortened but stay distinct.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    entries = [{**row, **{name: terminal(row[name]) for name in COLUMNS}} for row in rows]
    others = {name: max(len(name), *(len(entry[name]) for entry in entries)) for name in COLUMNS[1:]}
    taken = sum(others.values()) + 2 * len(others)
    names = shortened([entry["check"] for entry in entries], width - taken)
    grid = Table(box=None, pad_edge=False, header_style="")
    for column in COLUMNS:
        grid.add_column(column, justify="left" if column in ("check", "verdict") else "right", no_wrap=True)
    for name, entry in zip(names, entries, strict=True):
        grid.add_row(Text(name), *(Text(entry[column]) for column in others))
    output = io.StringIO()
    Console(file=output, width=max(map(len, names), default=0) + taken, color_system=None).print(grid)
    lines = [line.rstrip() for line in output.getvalue().splitlines()]
    return "\n".join([*lines, *map(terminal, _notes(entries))])


def _notes(entries: Sequence[Mapping[str, str]]) -> Iterator[str]:
    for title, name in (("Not observable", "not observable"), ("Note", "remarks")):
        for line, checks in Counter(line for entry in entries for line in entry[name].splitlines()).items():
            yield f"{title} in {count(checks, 'check')}: {line}"
    for entry in entries:
        if entry["not compared"]:
            leaves = ", ".join(entry["not compared"].splitlines())
            yield f"Not compared in {entry['check']}, because the eager results are not deterministic: {leaves}"
