"""List the contents of a baselines folder, and find and remove unused entries."""

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

# The entries of these kinds are named after tests; those of ``existing.json`` are named after functions and classes.
KINDS_OF_TESTS: tuple[Kind, ...] = ("speed", "structure", "plan")
KINDS: tuple[Kind, ...] = (*KINDS_OF_TESTS, "existing")


@dataclass(frozen=True)
class Collection:
    """The tests that pytest collects, and the baselines folder. Test ids are relative to ``root``.

    ``partly`` lists the files in which the command line selected only some tests.
    """

    root: Path
    baselines: Path
    tests: tuple[str, ...] = ()
    partly: tuple[str, ...] = ()


def listing(directory: Path) -> list[str]:
    """Return one line for each file, with the file's number of entries or the reason why the file cannot be used."""
    lines = []
    for environment, kind in _files(directory):
        stored = baselines.load(directory, environment, kind)
        count = f"{len(stored.entries)} {'entry' if len(stored.entries) == 1 else 'entries'}"
        lines.append(f"{environment}  {kind}: {stored.problem or count}")
    return lines


def problems(directory: Path) -> list[str]:
    """Return one line for each file that cannot be used, with the reason."""
    files = [
        (environment, kind, baselines.load(directory, environment, kind)) for environment, kind in _files(directory)
    ]
    return [f"{environment}  {kind}: {stored.problem}" for environment, kind, stored in files if stored.problem]


def _files(directory: Path, kinds: Sequence[Kind] = KINDS) -> Iterator[tuple[str, Kind]]:
    for folder in sorted(path for path in directory.glob("*") if path.is_dir()):
        for kind in kinds:
            if (folder / f"{kind}.json").exists():
                yield folder.name, kind


def collected(arguments: Sequence[str]) -> Collection:
    """Return all tests that pytest collects when it runs in the current folder.

    Raises:
        BaselineError: If pytest cannot collect the tests, or collects them without this plugin.
    """
    ended = Child(["--collect-only", "-q", "--", *arguments], Path.cwd()).run()
    if ended.status not in (0, 1, 5):
        raise BaselineError(f"pytest could not collect the tests: {ended.summary}")
    if not ended.results:
        # The plugin reports the tests; if the plugin were not loaded, the list would be empty.
        raise BaselineError(
            "pytest collected the tests without this plugin; load the plugin, for example with -p torch_compile"
        )
    about, *tests = ended.results
    return Collection(Path(about["root"]), Path(about["baselines"]), tuple(tests), tuple(about["partly"]))


def prune(directory: Path, collection: Collection, *, write: bool) -> list[str]:
    """Find the entries of tests that no longer exist, and remove these entries if ``write`` is true. Entries of tests
    that may still exist are kept, and so are files that cannot be used. Return one line for each entry found.

    Raises:
        BaselineError: If the baselines are outside pytest's root directory.
    """
    if not directory.resolve().is_relative_to(collection.root.resolve()):
        raise BaselineError(
            f"{directory} is outside pytest's root directory {collection.root}: run the command in the root directory"
        )
    lines = []
    for environment, kind in _files(directory, KINDS_OF_TESTS):
        entries = baselines.load(directory, environment, kind).entries
        deleted = {test for test in entries if not (collection.root / _file_of(test)).exists()}
        left_out = unused(entries, collection.tests, collection.partly)
        removed = {test for test in left_out if not _is_written(collection.root, test)}
        gone: dict[str, None] = dict.fromkeys(sorted(deleted | removed))
        lines += [f"{environment}  {kind}: {test}" for test in gone]
        if gone and write:
            baselines.update(directory, environment, partial(lambda removed, _: removed, gone), kind)
    return lines


def unused(entries: Iterable[str], collected: Iterable[str], selected: Iterable[str] = ()) -> list[str]:
    """Return the entries whose test function was not collected, although its file was collected.

    Entries for tests in the files ``selected`` are never returned, because the command line selected only some of the
    tests in these files. Parameters are ignored, because another machine may collect different parameters, such as
    devices.
    """
    tests = set(collected)
    functions, files = set(map(_function_of, tests)), set(map(_file_of, tests)) - set(selected)
    return sorted(entry for entry in entries if _function_of(entry) not in functions and _file_of(entry) in files)


def probable_renames(
    gone: Mapping[str, Entry], new: Mapping[str, Entry], alike: Callable[[Entry, Entry], bool]
) -> dict[str, str]:
    """Find tests that were probably renamed. Return a mapping from old names to new names.

    ``gone`` contains the entries of tests that no longer exist, and ``new`` the entries of new tests. ``alike`` returns
    whether two entries could belong to the same test. If several new tests could be the renamed test, the test with the
    most similar name is chosen.
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
    """Return a test id without its parameters."""
    file, separator, name = test.partition("::")
    return file + separator + name.partition("[")[0]


def _is_written(root: Path, test: str) -> bool:
    """Return whether a test is still defined in its file, perhaps under a condition that is false on this machine."""
    file, _, names = _function_of(test).partition("::")
    try:
        text = (root / file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # the file cannot be read, so the test may still exist
    return all(re.search(rf"\b(def|class)\s+{re.escape(name)}\b", text) for name in names.split("::"))
