"""Find the differences between two reports, or create a short overview of one report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..observation import file_line
from . import document, view
from .failure_text import count, headline
from .safe_text import markdown_code, terminal

_COLUMNS = ("graphs", "ops", "breaks", "recompiles", "seconds", "speedup")


@dataclass(frozen=True)
class Change:
    """One difference between two reports, in one test or in the whole run. ``worse`` is true if the difference is a
    regression.
    """

    test: str
    what: str
    worse: bool = False


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return the differences, regressions first. Tests are matched by environment and id or, if this finds no match, by
    id alone. A new run that did not finish is a regression, and so is a new run without results.
    """
    before = {test["id"]: test for test in old["tests"]} | {document.key_of(test): test for test in old["tests"]}
    matched = [(before.get(document.key_of(test)) or before.get(test["id"]), test) for test in new["tests"]]
    found = []
    if why := document.incomplete(new):
        found.append(Change("the new run", f"did not finish: {why}", worse=True))
    elif old["tests"] and not new["tests"]:
        found.append(Change("the new run", "has no results", worse=True))
    found += [change for earlier, test in matched for change in _of(earlier, test)]
    present = {test["id"] for test in new["tests"]}
    gone = sorted({test["id"] for test in old["tests"]} - present)
    found += [Change(test, "is gone", worse=False) for test in gone]
    return sorted(found, key=lambda change: not change.worse)


def _of(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> Iterator[Change]:
    name, bad = new["id"], new["outcome"] in ("failed", "error")
    if old is None:
        yield Change(name, f"is new: {view.VERDICTS[new['outcome']]}", worse=bad)
        return
    if old["outcome"] != new["outcome"]:
        verdicts = f"{view.VERDICTS[old['outcome']]} -> {view.VERDICTS[new['outcome']]}"
        yield Change(name, verdicts, worse=document.OUTCOMES.index(new["outcome"]) > document.OUTCOMES.index("passed"))
    if new["checks"] and old["checks"]:
        yield from _breaks(name, _fingerprints(old), _fingerprints(new))
        before, after = view.row(old), view.row(new)
        for field in ("recompiles", "graphs", "ops"):
            if before[field] != after[field]:
                worse = field == "recompiles" and after[field] > before[field]
                yield Change(name, f"{field} {before[field]} -> {after[field]}", worse=worse)
    for was, now in zip(view.plans(old), view.plans(new), strict=False):
        if was["gpu"] == now["gpu"]:
            yield from _planned(name, was, now)
    # The speedups of two runs differ because of noise; only the comparison with the baseline shows a regression.
    for was, now in zip(old["speed"], new["speed"], strict=False):
        if was["outcome"] != now["outcome"]:
            yield Change(name, f"speed {was['outcome']} -> {now['outcome']}", worse=now["outcome"] == "regressed")
        if was["speedup"] and now["speedup"] and abs(now["speedup"] / was["speedup"] - 1) > 0.02:
            yield Change(name, f"speedup {was['speedup']:.2f}x -> {now['speedup']:.2f}x")


def _planned(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    before = {one["quantity"]: one["value"] for one in old["counts"]}
    for one in new["counts"]:
        was, now = before.get(one["quantity"]), one["value"]
        if was is not None and was != now:
            text = view.difference({**one, "before": was, "after": now})
            worse = now < was if one["quantity"] == "cuda_graphs" else now > was
            yield Change(name, f"planned for {new['gpu']}: {text}", worse=worse)


Breaks = dict[str, list[Mapping[str, Any]]]


def _fingerprints(test: Mapping[str, Any]) -> Breaks:
    breaks: Breaks = {}
    for found in (found for check in test["checks"] for found in check["graph_breaks"]):
        breaks.setdefault(found["fingerprint"], []).append(found)
    return breaks


def _breaks(name: str, before: Breaks, after: Breaks) -> Iterator[Change]:
    """Compare breaks by fingerprint, which stays the same if the line moves, or if a newer torch version words the
    reason differently.
    """
    for fingerprint, (first, *_) in sorted(after.items()):
        if len(after[fingerprint]) > len(before.get(fingerprint, ())):
            where = first["location"]
            at = f" at {file_line(where['file'], where['line'])}" if where else ""
            yield Change(name, f"new graph break{at}: {first['category']} ({fingerprint})", worse=True)
    for fingerprint in sorted(before.keys() - after.keys()):
        yield Change(name, f"graph break gone: {before[fingerprint][0]['category']} ({fingerprint})")


def as_text(found: Sequence[Change]) -> str:
    """Return the differences, one per line."""
    rows = [f"{'worse' if change.worse else '     '}  {change.test}  {change.what}" for change in found]
    lines = [*map(terminal, rows)]
    return "\n".join([*lines, _total(found)])


def as_markdown(found: Sequence[Change]) -> str:
    """Return the differences as a table."""
    rows = [f"| {'worse' if c.worse else ''} | {markdown_code(c.test)} | {markdown_code(c.what)} |" for c in found]
    table = ["| | test | change |", "|---|---|---|", *rows, ""] if rows else []
    return "\n".join([*table, _total(found)])


def _total(found: Sequence[Change]) -> str:
    worse = sum(change.worse for change in found)
    return f"{count(len(found), 'change')}, {worse} for the worse" if found else "nothing changed"


def overview(made: Mapping[str, Any]) -> str:
    """Return an overview of a document: the summary line, a row for each test, and the findings."""
    tests = made["tests"]
    width = max((len(test["id"]) for test in tests), default=4)
    head = f"{'test':{width}}  {'verdict':13}" + "".join(f"{name:>12}" for name in _COLUMNS)
    lines = [f"{view.RESULTS[made['summary']['result']]}: {view.sentence(made)}", "", head]
    for test in tests:
        figures = view.row(test)
        values = [figures[name] for name in _COLUMNS]
        shown = ["-" if one is None else f"{one:.2f}" if isinstance(one, float) else str(one) for one in values]
        lines.append(f"{test['id']:{width}}  {figures['verdict']:13}" + "".join(f"{cell:>12}" for cell in shown))
    for found in view.findings(made):
        place = file_line(found.file, found.line)
        lines += ["", f"{found.finding['kind']}: {headline(found.finding)}", f"  {found.test['id']}", f"  at {place}"]
        lines += [f"  fix: {found.finding['hint']}"] if found.finding["hint"] else []
    return "\n".join(map(terminal, lines)) + "\n"
