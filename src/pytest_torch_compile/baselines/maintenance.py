"""The upkeep of a baselines folder: what is in it, and which entries no test uses any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from ..child import Child
from . import files as baselines
from .files import BaselineError, Entry, Kind

KINDS: tuple[Kind, ...] = ("speed", "structure")


def listing(directory: Path) -> list[str]:
    """One line for each file, with its entries or with what is wrong with it."""
    lines = []
    for environment, kind in _files(directory):
        stored = baselines.load(directory, environment, kind)
        count = f"{len(stored.entries)} {'entry' if len(stored.entries) == 1 else 'entries'}"
        lines.append(f"{environment}  {kind}: {stored.problem or count}")
    return lines


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
    if ended.status == 0 and not ended.results:
        # Nothing would be said to be unused, which is wrong: the plugin lists the tests.
        raise BaselineError("pytest collected the tests without this plugin; load it, as with -p torch_compile")
    return list(ended.results)


def prune(directory: Path, tests: Sequence[str], *, write: bool) -> list[str]:
    """Find the entries that no test uses, and remove them with ``write``; one line for each.

    Entries of a file that was not collected are left alone while the file exists.
    """
    lines = []
    for environment, kind in _files(directory):
        entries = baselines.load(directory, environment, kind).entries
        deleted = {test for test in entries if not Path(_file_of(test)).exists()}
        gone: dict[str, None] = dict.fromkeys(sorted({*unused(entries, tests), *deleted}))
        lines += [f"{environment}  {kind}: {test}" for test in gone]
        if gone and write:
            baselines.update(directory, environment, partial(_removed, gone), kind)
    return lines


def _removed(gone: Mapping[str, None], stored: Mapping[str, Entry]) -> Mapping[str, None]:
    return gone


def unused(entries: Iterable[str], collected: Iterable[str], selected: Iterable[str] = ()) -> list[str]:
    """The entries that no test uses any more.

    A run of some files says nothing about the tests of others, and ``selected`` names files of which only some tests
    were asked for. A file that is gone altogether is the caller's to look for.
    """
    tests = set(collected)
    files = set(map(_file_of, tests)) - set(selected)
    return sorted(entry for entry in entries if entry not in tests and _file_of(entry) in files)


def probable_renames(
    gone: Mapping[str, Entry], new: Mapping[str, Entry], alike: Callable[[Entry, Entry], bool]
) -> dict[str, str]:
    """New names of unused entries: tests that are probably the same under another name.

    ``alike`` says whether two entries could be of one test; of those the most similar name is taken.
    """
    renamed: dict[str, str] = {}
    for old in sorted(gone):
        candidates = [name for name, entry in new.items() if name not in renamed.values() and alike(gone[old], entry)]
        score, name = max(((SequenceMatcher(None, old, name).ratio(), name) for name in candidates), default=(0.0, ""))
        if score >= 0.5:
            renamed[old] = name
    return renamed


def _file_of(test: str) -> str:
    return test.split("::")[0]
