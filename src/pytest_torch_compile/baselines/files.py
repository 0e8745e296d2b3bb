"""Stored baselines, one folder per environment: neither torch nor pytest.

``speed.json`` is a pytest-benchmark document whose benchmarks carry the runs of several processes in
``extra_info["torch_compile"]``; ``structure.json`` holds what is exact. Both are sorted and written atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from .entries import has_checks, has_runs

SCHEMA_VERSION = 1
KEY = "torch_compile"
Kind = Literal["speed", "structure"]
Entry = dict[str, Any]


class BaselineError(ValueError):
    """A baseline that cannot be used; the message is one clear line."""


@dataclass(frozen=True)
class Baselines:
    """The entries of one file by test id. ``problem`` is one line when they could not be read, ``nearest`` another
    environment that has some.
    """

    environment: str
    path: Path
    entries: Mapping[str, Entry] = field(default_factory=dict)
    problem: str = ""
    nearest: str = ""

    @property
    def missing(self) -> str:
        """One line that says why there is no baseline for a test, and what to do."""
        if self.problem:
            return self.problem
        hint = f"; the nearest environment with baselines is {self.nearest}" if self.nearest else ""
        return f"no baseline for {self.environment} in {self.path.parent.parent}{hint}"


@dataclass(frozen=True)
class Row:
    """One line of the table of an update. ``change`` is added, changed or removed."""

    test: str
    change: Literal["added", "changed", "removed"]
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True)
class Update:
    """What writing changed; ``kept`` is where a file that could not be read was moved to."""

    path: Path
    rows: tuple[Row, ...]
    kept: Path | None = None


def environment_name(device: str, torch_version: str, cuda: str | None = None) -> str:
    """The folder name of an environment, such as ``NVIDIA-H200_torch-2.11_cuda-13.0`` or ``cpu_torch-2.13``."""
    minor = ".".join(torch_version.split("+")[0].split(".")[:2])
    parts = [re.sub(r"[^A-Za-z0-9.]+", "-", device).strip("-"), f"torch-{minor}"]
    return "_".join([*parts, f"cuda-{cuda}"] if cuda else parts)


def load(directory: Path, environment: str, kind: Kind = "speed") -> Baselines:
    """The baselines of an environment. A file that cannot be used is a ``problem``, never an exception."""
    path = directory / environment / f"{kind}.json"
    try:
        entries = _read(path, environment, kind)
    except FileNotFoundError:
        return Baselines(environment, path, nearest=nearest_environment(directory, environment, kind))
    except BaselineError as error:
        return Baselines(environment, path, problem=str(error))
    return Baselines(environment, path, entries)


def nearest_environment(directory: Path, environment: str, kind: Kind = "speed") -> str:
    """The most similar other environment that has baselines of this kind: same device first, then similar versions."""
    names = [p.parent.name for p in directory.glob(f"*/{kind}.json") if p.parent.name != environment]

    def nearness(name: str) -> tuple[bool, float, str]:
        same_device = name.split("_")[0] == environment.split("_")[0]
        return same_device, SequenceMatcher(None, name, environment).ratio(), name

    return max(names, key=nearness, default="")


def update(
    directory: Path,
    environment: str,
    merge: Callable[[Mapping[str, Entry]], Mapping[str, Entry | None]],
    kind: Kind = "speed",
    document: Mapping[str, Any] | None = None,
) -> Update:
    """Change entries of a file that another process may be changing too.

    ``merge`` gets the entries stored now and returns those to write, None to remove; it runs under the file's lock.
    Entries equal to the stored ones are left alone, and nothing is written when nothing changed. A file that cannot be
    read is moved aside and reported, not overwritten.

    Args:
        document: further top-level keys of a speed document (``machine_info``, ``commit_info``).

    Raises:
        BaselineError: the file is of a newer schema or another environment, or the new entries hold a NaN.
    """
    path = directory / environment / f"{kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        kept = None
        try:
            old, top = _read(path, environment, kind), _top(path)
        except FileNotFoundError:
            old, top = {}, {}
        except Corrupt:
            old, top, kept = {}, {}, set_aside(path)
        rows = _rows(old, merge(old))
        if rows:
            entries = {**old, **{row.test: row.after for row in rows}}
            kept_entries = {test: entry for test, entry in entries.items() if entry is not None}
            write(path, _document(environment, kind, kept_entries, {**top, **(document or {})}))
    return Update(path, tuple(rows), kept)


def unused(entries: Iterable[str], collected: Iterable[str], selected: Iterable[str] = ()) -> list[str]:
    """The entries that no test uses any more.

    A run of some files says nothing about the tests of others, and ``selected`` names files of which only some tests
    were asked for. A file that is gone altogether is the caller's to look for.
    """
    tests = set(collected)
    files = {file_of(test) for test in tests} - set(selected)
    return sorted(e for e in entries if e not in tests and file_of(e) in files)


def probable_renames(
    gone: Mapping[str, Entry], new: Mapping[str, Entry], alike: Callable[[Entry, Entry], bool]
) -> list[tuple[str, str]]:
    """Pairs of an unused entry and a new test that are probably one test under another name.

    ``alike`` says whether two entries could be of one test; of those the most similar name is taken.
    """
    pairs = []
    left = dict(new)
    for old in sorted(gone):
        rated = [(SequenceMatcher(None, old, name).ratio(), name) for name, e in left.items() if alike(gone[old], e)]
        score, name = max(rated, default=(0.0, ""))
        if score >= 0.5:
            pairs.append((old, name))
            del left[name]
    return pairs


def file_of(test: str) -> str:
    """The file of a test id."""
    return test.split("::")[0]


class Corrupt(BaselineError):
    """Not a document of ours at all; moved aside when a new one is written."""


def _read(path: Path, environment: str, kind: Kind) -> dict[str, Entry]:
    found = parse(path)
    header = found.get(KEY)
    if not isinstance(header, dict) or not isinstance(found.get(_list_of(kind)), list):
        raise Corrupt(f"{path} is not a {kind} baseline: it has no {KEY!r} header or no {_list_of(kind)!r}")
    if header.get("schema_version") != SCHEMA_VERSION:
        raise BaselineError(
            f"{path} has schema {header.get('schema_version')!r} and this version reads {SCHEMA_VERSION}; "
            f"install the version that wrote it, or delete the file and record it again"
        )
    if header.get("environment") != environment:
        raise BaselineError(f"{path} was recorded on {header.get('environment')}, not on {environment}")
    try:
        entries = {entry["fullname"]: entry for entry in found[_list_of(kind)]}
    except (KeyError, TypeError):
        raise Corrupt(f"{path} is not a {kind} baseline: an entry has no 'fullname'") from None
    for test, entry in entries.items():
        if not (has_runs(entry, KEY) if kind == "speed" else has_checks(entry)):
            raise Corrupt(f"{path} is damaged in the entry of {test}; restore it from version control")
    return entries


def _top(path: Path) -> dict[str, Any]:
    found = parse(path)
    return {name: value for name, value in found.items() if name not in (KEY, "benchmarks", "tests")}


def parse(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        FileNotFoundError: there is none.
        Corrupt: it cannot be read, holds a NaN, or something else than an object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise
    except _NotANumber as error:
        raise Corrupt(f"{path} holds {error}, which is no measurement; restore it from version control") from None
    except (ValueError, OSError) as error:
        raise Corrupt(f"{path} cannot be read ({error}); restore it from version control") from None
    if not isinstance(found, dict):
        raise Corrupt(f"{path} is not a baseline: its top level is a {type(found).__name__}")
    return found


class _NotANumber(Exception):
    """JSON's NaN or Infinity."""


def _refuse(constant: str) -> None:
    raise _NotANumber(constant)


def _list_of(kind: Kind) -> str:
    return "benchmarks" if kind == "speed" else "tests"


def _rows(old: Mapping[str, Entry], new: Mapping[str, Entry | None]) -> list[Row]:
    rows = []
    for test in sorted(new):
        before, after = old.get(test), new[test]
        if before != after:
            change: Any = "removed" if after is None else "changed" if before else "added"
            rows.append(Row(test, change, before, after))
    return rows


def _document(environment: str, kind: Kind, entries: Mapping[str, Entry], top: Mapping[str, Any]) -> dict[str, Any]:
    header = {"schema_version": SCHEMA_VERSION, "environment": environment}
    found: dict[str, Any] = {KEY: header, _list_of(kind): [entries[test] for test in sorted(entries)]}
    if kind == "speed":
        # What pytest-benchmark's own reader asks for.
        found = {"machine_info": {}, "commit_info": {}, "datetime": "", "version": "", **top, **found}
    return found


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document in one step, sorted and indented.

    Raises:
        BaselineError: it holds a NaN.
    """
    try:
        text = _short_lists(json.dumps(document, indent=2, sort_keys=True, allow_nan=False)) + "\n"
    except ValueError:
        raise BaselineError(f"a measurement for {path} is NaN or infinite; nothing was written") from None
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _short_lists(text: str) -> str:
    """The same JSON with lists of numbers on one line, so that a changed figure is one changed line."""
    return re.sub(
        r"\[[-+.\deE,\s]+\]", lambda found: re.sub(r"\s+", " ", found[0]).replace("[ ", "[").replace(" ]", "]"), text
    )


def set_aside(path: Path) -> Path:
    """Keep a file that cannot be read under another name, which is returned."""
    number = 1
    while (kept := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    path.rename(kept)
    return kept


@contextmanager
def _locked(path: Path, wait: float = 60.0) -> Iterator[None]:
    """One writer at a time. The lock lies in the temporary directory, so that none is left among the baselines."""
    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]
    handle = os.open(Path(tempfile.gettempdir()) / f"pytest-torch-compile-{name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _wait_for(handle, path, wait)
        yield
    finally:
        os.close(handle)


def _wait_for(handle: int, path: Path, wait: float) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no flock; writes stay atomic, but two at once may lose one
        return None
    deadline = time.monotonic() + wait
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise BaselineError(f"another process has been writing {path} for {wait:.0f} s") from None
            time.sleep(0.02)
