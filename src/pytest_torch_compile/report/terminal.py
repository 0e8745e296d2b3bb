"""The terminal's summary: one aligned row for each check, made with rich."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .failure_text import count
from .safe_text import terminal

COLUMNS = ("check", "graphs", "ops", "breaks", "recompiles", "worst error / limit", "compile s", "verdict")


def row(test: str, report: dict[str, Any]) -> dict[str, str]:
    """One row from a report's ``to_dict()``; plain text, so that it travels between processes."""
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


def expected(row: Mapping[str, str], why: str) -> dict[str, str]:
    """The row of a check that was expected to fail: it says so in place of a bare failure."""
    return {**row, "verdict": f"{why} ({row['kinds']})"} if row["kinds"] else {**row}


def table(rows: Iterable[dict[str, str]], width: int) -> str:
    """All rows as one table of ``width`` columns, then what torch did not let the checks see, and remarks.

    Names of checks that do not fit are cut, where they still differ.
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
    for title, name in (("Not observable", "not observable"), ("Remark", "remarks")):
        for line, checks in Counter(line for entry in entries for line in entry[name].splitlines()).items():
            yield f"{title} in {count(checks, 'check')}: {line}"
    for entry in entries:
        if entry["not compared"]:
            leaves = ", ".join(entry["not compared"].splitlines())
            yield f"Not compared in {entry['check']}, where eager differs from itself: {leaves}"


def shortened(names: Sequence[str], width: int) -> list[str]:
    """The names, cut to ``width`` where different names then stay different; else to the width that this takes.

    A name loses its beginning, which is the path to its file, or else what it shares with every other name that would
    look the same.
    """
    longest = max(map(len, names), default=0)
    for size in range(max(20, width), longest, 20):
        for cut in (_tails, _differing):
            short = cut(names, size)
            if len(set(short)) == len(set(names)):
                return short
    return list(names)


def _tails(names: Sequence[str], width: int) -> list[str]:
    return [name if len(name) <= width else "..." + name[3 - width :] for name in names]


def _differing(names: Sequence[str], width: int) -> list[str]:
    """Of names with the same end the part in which they differ, and as much of the end as fits."""
    tails = _tails(names, width)
    groups: dict[str, set[str]] = {}
    for name, tail in zip(names, tails, strict=True):
        groups.setdefault(tail, set()).add(name)
    # Letter by letter: these are names, not paths.
    shared = {tail: len(os.path.commonprefix(sorted(group))) for tail, group in groups.items()}  # noqa: RUF071
    half = (width - 6) // 2
    return [
        f"...{name[shared[tail] :][:half]}...{name[-half:]}" if len(groups[tail]) > 1 else tail
        for name, tail in zip(names, tails, strict=True)
    ]
