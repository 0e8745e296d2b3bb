"""The terminal's summary: one aligned row for each check, made with rich."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

COLUMNS = ("check", "graphs", "ops", "breaks", "recompiles", "worst error / limit", "compile s", "verdict")

NOT_OBSERVABLE, NOT_COMPARED, REMARKS = "not observable", "not compared", "remarks"


def row(test: str, report: dict[str, Any]) -> dict[str, str]:
    """One row from a report's ``to_dict()``; plain text, so that it travels between processes."""
    seen, numerics = report["observation"], report["numerics"]
    waived = len(numerics["not_compared"])
    passed = f"pass, {waived} not compared" if waived else "pass"
    verdict = passed if report["ok"] else ", ".join(sorted({finding["kind"] for finding in report["findings"]}))
    values = (
        f"{test} [{report['target']}]",
        str(len(seen["graphs"])),
        str(sum(len(graph["ops"]) for graph in seen["graphs"])),
        str(len(seen["graph_breaks"])),
        str(len(seen["recompiles"])),
        f"{numerics['worst_ratio']:.2g}" if numerics["leaves"] else "-",
        f"{seen['compile_seconds']['total'] + seen['compile_seconds']['backward']:.1f}",
        verdict,
    )
    notes = {NOT_OBSERVABLE: seen["not_observable"], NOT_COMPARED: numerics["not_compared"], REMARKS: report["remarks"]}
    return dict(zip(COLUMNS, values, strict=True)) | {name: "\n".join(lines) for name, lines in notes.items()}


def table(rows: Iterable[dict[str, str]], width: int) -> str:
    """All rows as one table of ``width`` columns, then what torch did not let the checks see, and remarks.

    Names of checks that do not fit are cut, where they are still told apart.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    entries = list(rows)
    others = {name: max(len(name), *(len(entry[name]) for entry in entries)) for name in COLUMNS[1:]}
    names = shortened([entry["check"] for entry in entries], width - sum(others.values()) - 2 * len(others))
    room = max(map(len, names), default=0)
    made = Table(box=None, pad_edge=False, header_style="")
    for name in COLUMNS:
        made.add_column(name, justify="left" if name in ("check", "verdict") else "right", no_wrap=True)
    for name, entry in zip(names, entries, strict=True):
        made.add_row(Text(name), *(Text(entry[column]) for column in others))
    output = io.StringIO()
    Console(file=output, width=room + sum(others.values()) + 2 * len(others), color_system=None).print(made)
    return "\n".join([*(line.rstrip() for line in output.getvalue().splitlines()), *_notes(entries)])


def _notes(entries: Iterable[dict[str, str]]) -> list[str]:
    lines = []
    for title, name in (("Not observable", NOT_OBSERVABLE), ("Remark", REMARKS)):
        counted = Counter(line for entry in entries for line in entry[name].splitlines())
        lines += [f"{title} in {n} check{'s' if n > 1 else ''}: {line}" for line, n in counted.items()]
    for entry in entries:
        if leaves := ", ".join(entry[NOT_COMPARED].splitlines()):
            lines.append(f"Not compared in {entry['check']}, where eager differs from itself: {leaves}")
    return lines


def shortened(names: Sequence[str], room: int) -> list[str]:
    """The names, cut to ``room`` where that leaves different names different; then to the room that it takes.

    A name loses its beginning, which is the path to its file, or else what it shares with every other name that would
    look the same.
    """
    longest = max(map(len, names), default=0)
    for size in range(max(20, room), longest, 20):
        for cut in (_tails, _differing):
            short = cut(names, size)
            if len(set(short)) == len(set(names)):
                return short
    return list(names)


def _tails(names: Sequence[str], room: int) -> list[str]:
    return [name if len(name) <= room else "..." + name[3 - room :] for name in names]


def _differing(names: Sequence[str], room: int) -> list[str]:
    """Of names with the same end the part in which they differ, and as much of the end as there is room for."""
    tails = _tails(names, room)
    groups: dict[str, set[str]] = {}
    for name, tail in zip(names, tails, strict=True):
        groups.setdefault(tail, set()).add(name)
    # Letter by letter: these are names, not paths.
    shared = {tail: len(os.path.commonprefix(sorted(group))) for tail, group in groups.items()}  # noqa: RUF071
    half = (room - 6) // 2
    return [
        f"...{name[shared[tail] :][:half]}...{name[-half:]}" if len(groups[tail]) > 1 else tail
        for name, tail in zip(names, tails, strict=True)
    ]


def expected(row: Mapping[str, str], why: str) -> dict[str, str]:
    """The row of a check that was expected to fail: it says so in place of a bare failure."""
    return {**row} if row["verdict"] == "pass" else {**row, "verdict": f"{why} ({row['verdict']})"}
