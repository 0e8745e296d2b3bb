"""The terminal's summary: one aligned row for each check, made with rich."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

COLUMNS = ("check", "graphs", "ops", "breaks", "recompiles", "worst error / limit", "compile s", "verdict")


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
    return dict(zip(COLUMNS, values, strict=True))


def table(rows: Iterable[dict[str, str]], width: int) -> str:
    """All rows as one table of ``width`` columns; names that do not fit lose their beginning."""
    from rich.console import Console
    from rich.table import Table

    entries = list(rows)
    made = Table(box=None, pad_edge=False, header_style="")
    for name in COLUMNS:
        left = name in ("check", "verdict")
        # The check's name is what gives way in a narrow terminal.
        least = None if name == "check" else max(len(name), *(len(entry[name]) for entry in entries))
        made.add_column(name, justify="left" if left else "right", no_wrap=True, overflow="ellipsis", min_width=least)
    for entry in entries:
        made.add_row(*_escaped(entry))
    output = io.StringIO()
    Console(file=output, width=width, color_system=None).print(made)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines())


def _escaped(entry: dict[str, str]) -> Sequence[str]:
    from rich.markup import escape

    return [escape(entry[name]) for name in COLUMNS]
