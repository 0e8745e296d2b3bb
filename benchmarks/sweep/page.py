"""Create the compatibility page from the sweep's results: tables of models and torch versions, and the changes between
adjacent versions.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pytest_torch_compile.disk import write_atomically

from .store import Document

HERE = Path(__file__).parent
CAUSES = "causes.md"
TESTS = {
    "inductor": "Inference in Inductor",
    "inductor-training": "Training in Inductor",
    "inference": "Inference, up to code generation",
    "training": "Training, up to code generation",
}
# Times on one machine vary from run to run, so a change is reported only if it exceeds this factor and these seconds.
SLOWER, AT_LEAST_SECONDS = 1.5, 5.0
Figures = Mapping[str, Any]


def write(documents: Sequence[Document], path: Path) -> None:
    """Write the page for these documents, one for each version."""
    write_atomically(path, render(documents))


def render(documents: Sequence[Document]) -> str:
    """Return the page as Markdown, with the versions in ascending order."""
    ordered = sorted(documents, key=lambda document: number_of(version_of(document)))
    surroundings = Environment(
        loader=FileSystemLoader(HERE), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    causes = HERE / CAUSES
    return surroundings.get_template("page.md.j2").render(
        versions=[version_of(document) for document in ordered],
        environments=[document["environment"] for document in ordered],
        totals=[totals(document, common(ordered)) for document in ordered],
        tables=[(title, rows) for test, title in TESTS.items() if (rows := table(ordered, test))],
        changes=[Change.between(old, new) for old, new in itertools.pairwise(ordered)],
        wrong=complaints(ordered),
        causes=causes.read_text(encoding="utf-8").strip() if causes.exists() else "",
    )


def version_of(document: Document) -> str:
    """Return the minor version, such as ``2.13``."""
    return ".".join(document["environment"]["torch"].split(".")[:2])


def number_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def names(documents: Sequence[Document], test: str) -> list[str]:
    """Return the names of a test's cases in all documents, vision models first."""
    found = {name for document in documents for name in document["cases"] if name.endswith(f" {test}")}
    return sorted(found, key=lambda name: (not name.startswith("vision/"), name))


def common(documents: Sequence[Document]) -> set[str]:
    """Return the cases that ran without an error on every version, so that their total times can be compared."""
    sets = [{name for name, found in document["cases"].items() if "error" not in found} for document in documents]
    return set.intersection(*sets) if sets else set()


def table(documents: Sequence[Document], test: str) -> list[tuple[str, list[str]]]:
    """Return a row for each case, with the model and a cell for each version."""
    return [
        (name.removesuffix(f" {test}"), [cell(document["cases"].get(name)) for document in documents])
        for name in names(documents, test)
    ]


def cell(figures: Figures | None) -> str:
    """Return text such as ``0 / 1 / 14`` (graph breaks, recompiles, processor seconds), preceded by wrong results and
    eager fallbacks. If the case failed, return only the error.
    """
    if figures is None:
        return "not run"
    if "error" in figures:
        return f"**{_escaped(figures['error'])}**"
    wrong = ", ".join(dict.fromkeys(found["kind"] for found in figures["wrong"]))
    parts = [f"**{wrong}**"] if wrong else []
    if figures["fallbacks"]:
        parts.append(f"**eager x{figures['fallbacks']}**")
    parts.append(f"{len(figures['breaks'])} / {len(figures['recompiles'])} / {figures['seconds']:.0f}")
    return " ".join(parts)


def totals(document: Document, shared: set[str]) -> dict[str, Any]:
    """Return the overview of one version: the number of cases with each kind of problem, and the total times."""
    cases = document["cases"]
    held = [found for found in cases.values() if "error" not in found]
    inductor = [cases[name]["seconds"] for name in shared if " inductor" in name]
    others = [cases[name]["seconds"] for name in shared if " inductor" not in name]
    return {
        "cases": len(cases),
        "errors": len(cases) - len(held),
        "wrong": sum(bool(found["wrong"]) for found in held),
        "broken": sum(bool(found["breaks"]) for found in held),
        "breaks": sum(len(found["breaks"]) for found in held),
        "recompiles": sum(len(found["recompiles"]) for found in held),
        "fallen": sum(bool(found["fallbacks"]) for found in held),
        "inductor_seconds": sum(inductor),
        "seconds": sum(others),
    }


def complaints(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Return each case's first wrong result of each kind, grouped by message, with the versions and cases in which it
    occurs.
    """
    seen: dict[tuple[str, str, str], list[str]] = {}
    for document in documents:
        for name in [name for test in TESTS for name in names([document], test)]:
            firsts = {found["kind"]: found["message"] for found in reversed(document["cases"][name].get("wrong", ()))}
            for kind, message in firsts.items():
                seen.setdefault((name, kind, message), []).append(version_of(document))
    same: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (name, kind, message), versions in seen.items():
        same.setdefault((kind, message, tuple(versions)), []).append(name)
    return [
        {"cases": cases, "kind": kind, "message": _escaped(message), "versions": versions}
        for (kind, message, versions), cases in same.items()
    ]


@dataclass(frozen=True)
class Change:
    """The differences between a version and the previous version."""

    old: str
    new: str
    lines: list[str]

    @classmethod
    def between(cls, old: Document, new: Document) -> Change:
        both = [name for test in TESTS for name in names([old], test) if name in new["cases"]]
        same: dict[str, list[str]] = {}
        for name in both:
            if differing := differences(old["cases"][name], new["cases"][name]):
                same.setdefault("; ".join(differing), []).append(f"`{name}`")
        lines = [f"{', '.join(cases)}: {differing}" for differing, cases in same.items()]
        return cls(version_of(old), version_of(new), lines)


def differences(old: Figures, new: Figures) -> list[str]:
    """Describe the changes for one case; empty if nothing changed."""
    if "error" in old or "error" in new:
        before, after = (_escaped(found.get("error", "runs")) for found in (old, new))
        return [] if before == after else [f"{before} -> {after}"]
    return [
        *_changed_kinds(old["wrong"], new["wrong"]),
        *_changed_counts("graph break", _tally(old["breaks"]), _tally(new["breaks"])),
        *_changed_counts("recompile", Counter(old["recompiles"]), Counter(new["recompiles"])),
        *_changed_number("eager fallbacks", old["fallbacks"], new["fallbacks"]),
        *_changed_number("graphs", old["graphs"], new["graphs"]),
        # The time of a compilation that failed is meaningless.
        *(_changed_time(old["seconds"], new["seconds"]) if not old["wrong"] and not new["wrong"] else []),
    ]


def _tally(breaks: Sequence[Mapping[str, str]]) -> Counter[str]:
    return Counter(f"{found['what']} at {found['where']}" for found in breaks)


def _changed_kinds(old: Sequence[Figures], new: Sequence[Figures]) -> list[str]:
    before, after = ({found["kind"] for found in each} for each in (old, new))
    gone, come = sorted(before - after), sorted(after - before)
    return [f"no longer reported: {', '.join(gone)}"] * bool(gone) + [f"newly reported: {', '.join(come)}"] * bool(come)


def _changed_counts(noun: str, old: Counter[str], new: Counter[str]) -> list[str]:
    if old == new:
        return []
    gone, come = old - new, new - old
    parts = [f"gone: {_listed(gone)}"] * bool(gone) + [f"new: {_listed(come)}"] * bool(come)
    return [f"{noun}s {old.total()} -> {new.total()} ({'; '.join(parts)})"]


def _listed(tally: Counter[str]) -> str:
    shown = [f"{_escaped(what)}{f' x{times}' if times > 1 else ''}" for what, times in tally.most_common(3)]
    return ", ".join(shown) + (f" and {len(tally) - 3} more" if len(tally) > 3 else "")


def _changed_number(noun: str, old: int, new: int) -> list[str]:
    return [] if old == new else [f"{noun} {old} -> {new}"]


def _changed_time(old: float, new: float) -> list[str]:
    less, more = sorted((old, new))
    if more - less < AT_LEAST_SECONDS or more < SLOWER * less:
        return []
    return [f"{old:.0f} s -> {new:.0f} s"]


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
