"""Create a Markdown summary of limited size for a GitHub step summary, a comment or a file. The worst findings
come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..observation import file_line
from . import safe_text, view
from .failure_text import headline
from .safe_text import markdown_block as block
from .safe_text import markdown_code as code

# GitHub rejects a step summary over 1 MiB, and a comment over 65,536 characters.
STEP_LIMIT = 1_000_000
COMMENT_LIMIT = 60_000
EVIDENCE_LINES = 30
ORDER = ("error", "failed", "xfailed", "passed", "skipped")
_NOTE = 200  # bytes reserved for the line with the number of omitted items


def summary(made: Mapping[str, Any], limit: int = STEP_LIMIT) -> str:
    """Return the document as Markdown of at most ``limit`` bytes, with the number of items that did not fit."""
    text = f"## torch.compile: {view.RESULTS[made['summary']['result']]}\n\n{view.sentence(made)}.\n\n"
    if names := ", ".join(code(name) for name in sorted(made["environments"])[:20]):
        text += f"Environment: {names}\n\n"
    for head, section in SECTIONS.items():
        pieces = (piece if number else head + piece for number, piece in enumerate(section(made)))
        text = _fill(text, pieces, limit)
    return text


def _fill(text: str, pieces: Iterable[str], limit: int) -> str:
    """Append pieces to ``text`` until the next piece would not fit, and then append the number of omitted pieces."""
    left, size = 0, len(text.encode("utf-8", "replace"))
    for piece in pieces:
        size += len(piece.encode("utf-8", "replace"))
        if left or size + _NOTE > limit:
            left += 1
        else:
            text += piece
    return f"{text}\n\n... and {left} more in the full report.\n\n" if left else text


def _findings(made: Mapping[str, Any]) -> Iterator[str]:
    for number, item in enumerate(view.findings(made), 1):
        finding, check = item.finding, item.check or {}
        kind, test = safe_text.markdown(finding["kind"]), code(item.test["id"])
        lines = [f"{number}. **{kind}** in {test}: {code(headline(finding))}", ""]
        lines += [f"   at {code(file_line(item.file, item.line))}", ""]
        if evidence := finding["evidence"].splitlines():
            fenced = block(evidence[:EVIDENCE_LINES], "   ")
            lines += ["   <details><summary>evidence</summary>", "", *fenced, "", "   </details>", ""]
        facts = [("cause", finding.get("cause")), ("fix", finding["hint"])]
        # Details about the whole check appear once, with the check's final finding.
        if check and finding is check["findings"][-1]:
            facts += [("diagnosis", line) for line in check.get("diagnosis", [])]
            for one in check.get("deviations", []):
                where = f", {one['where']}" if one["where"] else ""
                facts.append(
                    ("not torch's default", f"{one['name']} = {one['value']} (default {one['default']}){where}")
                )
        facts.append(("run again", check.get("rerun")))
        for title, text in facts:
            lines += [f"   {title}: {code(text)}", ""] if text else []
        yield "\n".join(lines) + "\n"


def _speed(made: Mapping[str, Any]) -> Iterator[str]:
    for test in made["tests"]:
        for speed in test["speed"]:
            changes = {change["metric"]: view.percent(change["effect"]) for change in speed["changes"]}
            factor = f"{speed['speedup']:.2f}x" if speed["speedup"] else ""
            cells = (
                code(test["id"]),
                safe_text.markdown(speed["outcome"]),
                factor,
                changes.get("wall", ""),
                changes.get("device", ""),
            )
            yield f"| {' | '.join(cells)} | {code(speed['summary'])} |\n"


def _differences(made: Mapping[str, Any]) -> Iterator[str]:
    for test in made["tests"]:
        for exact in (exact for speed in test["speed"] for exact in speed.get("exact", [])):
            outcome = "worse" if exact["worse"] else "better"
            yield f"| {code(test['id'])} | {outcome} | {code(view.difference(exact))} |\n"


def _plans(made: Mapping[str, Any]) -> Iterator[str]:
    for test in made["tests"]:
        for plan in view.plans(test):
            values = {one["quantity"]: view.counted(one["quantity"], one["value"]) for one in plan["counts"]}
            shown = [values.get(name, "") for name in ("kernels", "library_calls", "memory", "bytes_moved")]
            cells = [code(test["id"]), code(plan["gpu"]), *shown, safe_text.markdown(plan.get("outcome", ""))]
            yield f"| {' | '.join(cells)} | {code(plan['summary']) if plan.get('summary') else ''} |\n"


def _checks(made: Mapping[str, Any]) -> Iterator[str]:
    for test in sorted(made["tests"], key=lambda test: ORDER.index(test["outcome"])):
        row = view.row(test)
        figures = [(row[name], "") for name in ("graphs", "ops", "breaks", "recompiles")]
        figures += [(row["ratio"], ".2g"), (row["seconds"], ".1f")]
        cells = [format(value, how) if value is not None else "" for value, how in figures]
        yield f"| {' | '.join([code(test['id']), row['verdict'], *cells])} |\n"


def _remarks(made: Mapping[str, Any]) -> Iterator[str]:
    for test in made["tests"]:
        for remark in (remark for check in test["checks"] for remark in check.get("remarks", [])):
            yield f"- {code(test['id'])}: {code(remark)}\n"


# For each section, the heading (omitted if the section is empty) and the function that creates the section's items.
SECTIONS = {
    "### Findings\n\n": _findings,
    "### Counts in speed tests\n\n| test | | before -> after |\n|---|---|---|\n": _differences,
    "\n### Speed\n\n| test | verdict | speedup | wall | device | |\n|---|---|---:|---:|---:|---|\n": _speed,
    "\n### Plans (not measured)\n\n| test | GPU | kernels | library calls | peak memory | moved | verdict | |\n"
    "|---|---|---:|---:|---:|---:|---|---|\n": _plans,
    "\n### Checks\n\n| test | verdict | graphs | ops | breaks | recompiles | worst error / limit | compile s |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|\n": _checks,
    "\n### Notes\n\n": _remarks,
}
