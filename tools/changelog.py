"""Parse and validate CHANGELOG.md.

The changelog also determines the install commands in the documentation. They use the repository until an entry has a
date, which is set when the first release is prepared, and the package name from then on. ``python -m tools.changelog
v0.2.0`` prints one entry.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).parents[1] / "CHANGELOG.md"
UNRELEASED = "Unreleased"
SECTIONS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_TITLE = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\d{4}-\d{2}-\d{2}))?$")


@dataclass(frozen=True)
class Entry:
    """One version. The date of an unreleased version is empty."""

    version: str
    date: str
    text: str

    @property
    def sections(self) -> list[str]:
        return re.findall(r"^### (.+)$", self.text, re.M)

    @property
    def items(self) -> list[str]:
        return re.findall(r"^- (.+)$", self.text, re.M)


def entries(text: str) -> list[Entry]:
    """Return the entries, newest first."""
    parts = re.split(r"^(?=## )", text, flags=re.M)[1:]
    found = []
    for part in parts:
        title, _, body = part.partition("\n")
        named = _TITLE.match(title)
        found.append(Entry(named["version"], named["date"] or "", body.strip()) if named else Entry(title, "", body))
    return found


def is_released(text: str) -> bool:
    """Return whether any version has been released."""
    return any(entry.date for entry in entries(text))


def problems(text: str, release: str = "") -> Iterator[str]:
    """Yield problems in the changelog and, if ``release`` is set, in the entry for this version."""
    found = entries(text)
    for entry in found:
        yield from _problems_of(entry)
    if not found or found[0].version != UNRELEASED:
        yield f"the first entry must be [{UNRELEASED}]"
    if release:
        yield from _problems_of_release(found, release)


def _problems_of(entry: Entry) -> Iterator[str]:
    if entry.version != UNRELEASED and not entry.date:
        yield f"[{entry.version}]: the title must read '## [1.2.3] - 2026-01-31'"
    for name in entry.sections:
        if name not in SECTIONS:
            yield f"[{entry.version}]: '{name}' is not one of {', '.join(SECTIONS)}"
    for line in entry.text.splitlines():
        if line and not line.startswith(("### ", "- ", "  ")):
            yield f"[{entry.version}]: only headings and list items are allowed, not '{line[:40]}'"


def _problems_of_release(found: list[Entry], release: str) -> Iterator[str]:
    released = next((entry for entry in found if entry.version == release), None)
    if released is None:
        yield f"there is no entry for {release}"
    elif not released.items:
        yield f"the entry for {release} is empty"
    if any(entry.items for entry in found if entry.version == UNRELEASED):
        yield f"[{UNRELEASED}] must be empty: its items belong to {release}"


def with_release(text: str, release: str, date: str) -> str:
    """Return the changelog with the unreleased items moved to this release."""
    title = f"## [{UNRELEASED}]"
    if text.count(f"\n{title}\n") != 1:
        raise ValueError(f"CHANGELOG.md must have exactly one title '{title}'")
    return text.replace(f"\n{title}\n", f"\n{title}\n\n## [{release}] - {date}\n")


def notes(text: str, release: str) -> str:
    """Return the release notes: the entry, with each item on one line.

    Raises:
        ValueError: If the changelog has no entry for ``release``.
    """
    found = [entry.text for entry in entries(text) if entry.version == release]
    if not found:
        raise ValueError(f"CHANGELOG.md has no entry for {release}")
    return re.sub(r"\n  +(?=\S)", " ", found[0]) + "\n"


if __name__ == "__main__":
    print(notes(FILE.read_text(encoding="utf-8"), sys.argv[1].removeprefix("v")), end="")
