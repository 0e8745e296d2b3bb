"""The Markdown summary: for a step summary, a comment, a file. Cut to a size, worst first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import view
from .text import headline

# GitHub refuses a whole step summary over 1 MiB, and a comment over 65,536 characters.
STEP_LIMIT = 1_000_000
COMMENT_LIMIT = 60_000
EVIDENCE_LINES = 30
_NOTE = 200


def summary(made: Mapping[str, Any], limit: int = STEP_LIMIT) -> str:
    """The document as Markdown of at most ``limit`` bytes; what does not fit is counted."""
    text = f"## torch.compile: {view.RESULTS[made['summary']['result']]}\n\n{view.sentence(made)}.\n\n"
    text += _environments(made)
    sections: list[Callable[[Mapping[str, Any]], Iterator[str]]] = [_failures, _speed, _checks, _remarks]
    for section in sections:
        text = _fill(text, section(made), limit)
    return text


def _fill(text: str, pieces: Iterable[str], limit: int) -> str:
    """Add pieces until the next one would not fit; say how many were left out."""
    left = 0
    for piece in pieces:
        if left or _bytes(text) + _bytes(piece) + _NOTE > limit:
            left += 1
        else:
            text += piece
    if left:
        text += f"\n\n... and {left} more in the full report.\n\n"
    return text


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _environments(made: Mapping[str, Any]) -> str:
    names = ", ".join(code(name) for name in sorted(made["environments"])[:20])
    return f"Environment: {names}\n\n" if names else ""


def _failures(made: Mapping[str, Any]) -> Iterator[str]:
    found = view.findings(made)
    for number, item in enumerate(found, 1):
        title = "### Findings\n\n" if number == 1 else ""
        yield title + _finding(number, item)


def _finding(number: int, item: view.Found) -> str:
    finding = item.finding
    head = f"{number}. **{plain(finding['kind'])}** in {code(item.test['id'])}: {code(headline(finding))}"
    lines = [head, "", f"   at {code(f'{item.file}:{item.line}')}", ""]
    evidence = finding["evidence"].splitlines()
    if evidence:
        lines += [
            "   <details><summary>evidence</summary>",
            "",
            *fenced(evidence[:EVIDENCE_LINES], "   "),
            "",
            "   </details>",
            "",
        ]
    if finding.get("cause"):
        lines += [f"   cause: {code(finding['cause'])}", ""]
    if finding["hint"]:
        lines += [f"   fix: {code(finding['hint'])}", ""]
    lines += [f"   diagnosis: {code(line)}\n" for line in _diagnosis(item)]
    lines += [f"   not torch's default: {code(line)}\n" for line in _settings(item)]
    if item.check and item.check["rerun"]:
        lines += [f"   run again: {code(item.check['rerun'])}", ""]
    return "\n".join(lines) + "\n"


def _diagnosis(item: view.Found) -> list[str]:
    """What looking into the check found, told once: with its last finding."""
    if item.check is None or item.finding is not item.check["findings"][-1]:
        return []
    return list(item.check.get("diagnosis", []))


def _settings(item: view.Found) -> list[str]:
    """The settings that are not torch's defaults, told once: with the check's last finding."""
    if item.check is None or item.finding is not item.check["findings"][-1]:
        return []
    found = item.check.get("deviations", [])
    return [
        f"{one['name']} = {one['value']} (default {one['default']}){one['where'] and ', '}{one['where']}"
        for one in found
    ]


def fenced(lines: list[str], indent: str = "") -> list[str]:
    """A block of code whose fence no line in it can close."""
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return [f"{indent}{line}" for line in (f"{fence}text", *lines, fence)]


def _speed(made: Mapping[str, Any]) -> Iterator[str]:
    rows = [(test, speed) for test in made["tests"] for speed in test["speed"]]
    for number, (test, speed) in enumerate(rows):
        head = "### Speed\n\n| test | verdict | speedup | wall | device | |\n|---|---|---:|---:|---:|---|\n"
        changes = {change["metric"]: view.percent(change["effect"]) for change in speed["changes"]}
        factor = f"{speed['speedup']:.2f}x" if speed["speedup"] else ""
        cells = (code(test["id"]), speed["outcome"], factor, changes.get("wall", ""), changes.get("device", ""))
        yield (head if not number else "") + f"| {' | '.join(cells)} | {code(speed['summary'])} |\n"
    if rows:
        yield "\n"


def _checks(made: Mapping[str, Any]) -> Iterator[str]:
    order = {name: place for place, name in enumerate(("error", "failed", "xfailed", "passed", "skipped"))}
    tests = sorted(made["tests"], key=lambda test: order[test["outcome"]])
    for number, test in enumerate(tests):
        head = (
            "### Checks\n\n| test | verdict | graphs | ops | breaks | recompiles | worst error / limit | compile s |\n"
            "|---|---|---:|---:|---:|---:|---:|---:|\n"
        )
        yield (head if not number else "") + _row(test)


def _row(test: Mapping[str, Any]) -> str:
    figures = view.row(test)
    numbers = [str(figures[n]) if figures[n] is not None else "" for n in ("graphs", "ops", "breaks", "recompiles")]
    ratio = f"{figures['ratio']:.2g}" if figures["ratio"] is not None else ""
    seconds = f"{figures['seconds']:.1f}" if figures["seconds"] is not None else ""
    return f"| {' | '.join([code(test['id']), figures['verdict'], *numbers, ratio, seconds])} |\n"


def _remarks(made: Mapping[str, Any]) -> Iterator[str]:
    found = [(test, remark) for test in made["tests"] for c in test["checks"] for remark in c.get("remarks", [])]
    for number, (test, remark) in enumerate(found):
        yield ("" if number else "\n### Remarks\n\n") + f"- {code(test['id'])}: {code(remark)}\n"


def plain(text: str) -> str:
    """Text with everything that Markdown or HTML would read escaped, on one line."""
    return re.sub(r"([\\`*_{}\[\]()#!|<>~@&])", r"\\\1", one_line(text))


def code(text: str) -> str:
    """A code span that holds in a table cell: nothing in it is Markdown, HTML, a mention or a new line."""
    line = one_line(text).replace("|", "\\|").strip()
    if not line:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def one_line(text: str) -> str:
    """Control characters, new lines among them, as a space; directions of writing are left out."""
    return re.sub(r"[\u202a-\u202e\u2066-\u2069]", "", re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", text))
