"""The terminal's summary: one aligned row for each check, made with rich."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from typing import Any

COLUMNS = ("check", "graphs", "ops", "breaks", "recompiles", "worst error / limit", "compile s", "verdict")

NOT_OBSERVABLE, REMARKS = "not observable", "remarks"


def row(test: str, report: dict[str, Any]) -> dict[str, str]:
    """One row from a report's ``to_dict()``; plain text, so that it travels between processes."""
    seen, numerics = report["observation"], report["numerics"]
    verdict = "pass" if report["ok"] else ", ".join(sorted({finding["kind"] for finding in report["findings"]}))
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
    notes = {NOT_OBSERVABLE: seen["not_observable"], REMARKS: report["remarks"]}
    return dict(zip(COLUMNS, values, strict=True)) | {name: "\n".join(lines) for name, lines in notes.items()}


def table(rows: Iterable[dict[str, str]], width: int) -> str:
    """All rows as one table of ``width`` columns, then what torch did not let the checks see, and remarks.

    Names of checks that do not fit lose their beginning.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    entries = list(rows)
    others = {name: max(len(name), *(len(entry[name]) for entry in entries)) for name in COLUMNS[1:]}
    room = max(20, width - sum(others.values()) - 2 * len(others))
    made = Table(box=None, pad_edge=False, header_style="")
    for name in COLUMNS:
        made.add_column(name, justify="left" if name in ("check", "verdict") else "right", no_wrap=True)
    for entry in entries:
        made.add_row(Text(_tail(entry["check"], room)), *(Text(entry[name]) for name in others))
    output = io.StringIO()
    Console(file=output, width=room + sum(others.values()) + 2 * len(others), color_system=None).print(made)
    return "\n".join([*(line.rstrip() for line in output.getvalue().splitlines()), *_notes(entries)])


def _notes(entries: Iterable[dict[str, str]]) -> list[str]:
    lines = []
    for title, name in (("Not observable", NOT_OBSERVABLE), ("Remark", REMARKS)):
        counted = Counter(line for entry in entries for line in entry[name].splitlines())
        lines += [f"{title} in {n} check{'s' if n > 1 else ''}: {line}" for line, n in counted.items()]
    return lines


def _tail(text: str, room: int) -> str:
    return text if len(text) <= room else "..." + text[3 - room :]
