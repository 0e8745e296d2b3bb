"""The baselines folder from the command line: what is in it, and what no test uses any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..child import Child
from . import files as baselines
from .files import BaselineError, Kind

KINDS: tuple[Kind, ...] = ("speed", "structure")


def listing(directory: Path) -> list[str]:
    """One line for each file, with its entries or with what is wrong with it."""
    return [f"{environment}  {kind}: {_about(directory, environment, kind)}" for environment, kind in _files(directory)]


def _about(directory: Path, environment: str, kind: Kind) -> str:
    found = baselines.load(directory, environment, kind)
    return found.problem or f"{len(found.entries)} {'entry' if len(found.entries) == 1 else 'entries'}"


def _files(directory: Path) -> Iterator[tuple[str, Kind]]:
    for folder in sorted(path for path in directory.glob("*") if path.is_dir()):
        for kind in KINDS:
            if (folder / f"{kind}.json").exists():
                yield folder.name, kind


def collected(arguments: Sequence[str]) -> list[str]:
    """The ids of all tests that pytest collects.

    Raises:
        BaselineError: pytest cannot collect them, so that nothing can be said about unused entries.
    """
    ended = Child(["--collect-only", "-q", "--", *arguments], Path.cwd()).run()
    if ended.status not in (0, 1, 5):
        raise BaselineError(f"pytest could not collect the tests: {ended.last_line}")
    return list(ended.results)


def prune(directory: Path, tests: Sequence[str], *, write: bool) -> list[str]:
    """Find the entries that no test uses, and remove them with ``write``; one line for each.

    Entries of a file that was not collected are left alone while the file exists.
    """
    lines = []
    for environment, kind in _files(directory):
        entries = baselines.load(directory, environment, kind).entries
        gone = _unused(entries, tests)
        lines += [f"{environment}  {kind}: {test}" for test in gone]
        if gone and write:
            removed: dict[str, None] = dict.fromkeys(gone)
            baselines.update(directory, environment, _always(removed), kind)
    return lines


def _always(entries: Mapping[str, None]) -> Callable[[Mapping[str, Any]], Mapping[str, None]]:
    return lambda stored: entries


def _unused(entries: Mapping[str, Any], tests: Sequence[str]) -> list[str]:
    deleted = [entry for entry in entries if not Path(baselines.file_of(entry)).exists()]
    return sorted({*baselines.unused(entries, tests), *deleted})
