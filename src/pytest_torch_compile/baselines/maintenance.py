"""The upkeep of a baselines folder: what is in it, and which entries no test uses any more."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from ..child import Child
from . import files as baselines
from .files import BaselineError, Entry, Kind

KINDS: tuple[Kind, ...] = ("speed", "structure")


@dataclass(frozen=True)
class Collection:
    """What pytest collects: the ids of the tests, which are relative to ``root``, and where baselines are stored.

    ``partly`` are the files of which only some tests were asked for.
    """

    root: Path
    baselines: Path
    tests: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()


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


def collected(arguments: Sequence[str]) -> Collection:
    """All tests that pytest collects in this folder.

    Raises:
        BaselineError: pytest cannot collect them, so that nothing can be said about unused entries.
    """
    ended = Child(["--collect-only", "-q", "--", *arguments], Path.cwd()).run()
    if ended.status not in (0, 1, 5):
        raise BaselineError(f"pytest could not collect the tests: {ended.last_line}")
    if not ended.results:
        # Nothing would be said to be unused, which is wrong: the plugin lists the tests.
        raise BaselineError("pytest collected the tests without this plugin; load it, as with -p torch_compile")
    about, *tests = ended.results
    return Collection(Path(about["root"]), Path(about["baselines"]), tuple(tests), tuple(about["partly"]))


def prune(directory: Path, collection: Collection, *, write: bool) -> list[str]:
    """Find the entries whose test is certainly gone, and remove them with ``write``; one line for each.

    Raises:
        BaselineError: the baselines are of another project, whose tests these are not.
    """
    if not directory.resolve().is_relative_to(collection.root.resolve()):
        raise BaselineError(f"{directory} is not below pytest's root directory {collection.root}: start it there")
    lines = []
    for environment, kind in _files(directory):
        entries = baselines.load(directory, environment, kind).entries
        deleted = {test for test in entries if not (collection.root / _file_of(test)).exists()}
        left_out = unused(entries, collection.tests, collection.partly)
        removed = {test for test in left_out if not _is_written(collection.root, test)}
        gone: dict[str, None] = dict.fromkeys(sorted(deleted | removed))
        lines += [f"{environment}  {kind}: {test}" for test in gone]
        if gone and write:
            baselines.update(directory, environment, partial(_removed, gone), kind)
    return lines


def _removed(gone: Mapping[str, None], stored: Mapping[str, Entry]) -> Mapping[str, None]:
    return gone


def unused(entries: Iterable[str], collected: Iterable[str], selected: Iterable[str] = ()) -> list[str]:
    """The entries whose test function was not collected, in files that were.

    A run of some files says nothing about the tests of others, and ``selected`` names files of which only some tests
    were asked for. Another machine may collect other parameters of a function, as those of its devices.
    """
    tests = set(collected)
    functions, files = set(map(_function_of, tests)), set(map(_file_of, tests)) - set(selected)
    return sorted(entry for entry in entries if _function_of(entry) not in functions and _file_of(entry) in files)


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


def _function_of(test: str) -> str:
    """An id without its parameters."""
    file, separator, name = test.partition("::")
    return file + separator + name.partition("[")[0]


def _is_written(root: Path, test: str) -> bool:
    """Whether the file has the test still, for a machine that it is made for: under a condition, perhaps."""
    file, _, names = _function_of(test).partition("::")
    try:
        text = (root / file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # nobody can say
    return all(re.search(rf"\b(def|class)\s+{re.escape(name)}\b", text) for name in names.split("::"))
