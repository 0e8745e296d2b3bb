"""Read and write stored baselines, one folder per environment. This module imports neither torch nor pytest.

``speed.json`` uses pytest-benchmark's JSON format. For each benchmark in ``speed.json``,
``extra_info["torch_compile"]`` contains the runs of several processes. ``structure.json`` contains counts, such as the
number of recompiles. ``existing.json`` contains the results of ``--compile-existing``, and ``plan.json`` contains the
counts that ``--compile-plan`` predicts. The entries in each file are sorted, and each file is written atomically.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from ..disk import machine_lock, remove_leftovers, write_atomically
from . import entries as stored
from . import schema

SCHEMA_VERSION = 1
KEY = "torch_compile"
LIST_OF_ENTRIES = {"speed": "benchmarks", "structure": "tests", "existing": "targets", "plan": "tests"}
WAIT_SECONDS = 60.0
RESTORE = "restore the file from version control"
Kind = Literal["speed", "structure", "existing", "plan"]
Entry = dict[str, Any]
# A function that receives the stored entries, and returns the entries to write; None removes an entry.
Merge = Callable[[Mapping[str, Entry]], Mapping[str, Entry | None]]


class BaselineError(ValueError):
    """Raised when a baseline cannot be used; the message is one line."""


@dataclass(frozen=True)
class Baselines:
    """The entries of one baseline file, keyed by test id. If the entries could not be read, ``problem`` contains the
    reason. If the file does not exist, ``nearest`` is the name of the most similar environment that has baselines, or
    empty if there is none.
    """

    environment: str
    path: Path
    entries: Mapping[str, Entry] = field(default_factory=dict)
    problem: str = ""
    nearest: str = ""

    @property
    def missing(self) -> str:
        """A one-line reason why there is no usable baseline."""
        if self.problem:
            return self.problem
        hint = f"; the nearest environment with baselines is {self.nearest}" if self.nearest else ""
        return f"no baseline exists for {self.environment} in {self.path.parent.parent}{hint}"


@dataclass(frozen=True)
class Row:
    """One row of the table that is printed when baselines are updated. ``change`` is ``added``, ``changed`` or
    ``removed``.
    """

    test: str
    change: Literal["added", "changed", "removed"]
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True)
class Update:
    """The changes that were written to the file at ``path``. If the old file was damaged, ``kept`` is the path to which
    the old file was moved.
    """

    path: Path
    rows: tuple[Row, ...]
    kept: Path | None = None

    def __str__(self) -> str:
        number = len(self.rows)
        return f"{self.path}: {number or 'no'} {'entry' if number == 1 else 'entries'} changed"


def environment_name(device: str, torch_version: str, cuda: str | None = None) -> str:
    """Return the folder name of an environment, such as ``NVIDIA-H200_torch-2.11_cuda-13.0`` or ``cpu_torch-2.13``."""
    minor = ".".join(torch_version.split("+")[0].split(".")[:2])
    parts = [re.sub(r"[^A-Za-z0-9.]+", "-", device).strip("-"), f"torch-{minor}"]
    return "_".join([*parts, f"cuda-{cuda}"] if cuda else parts)


def name_of(environment: Mapping[str, Any]) -> str:
    """Return the folder name of an environment that is described by its device and its versions of torch and CUDA."""
    return environment_name(environment["device"], environment["torch"], environment["cuda"])


def plan_environment_name(gpu: str, torch_version: str) -> str:
    """Return the name of the folder for the counts that ``--compile-plan`` predicts for a GPU, such as
    ``plan_H100_torch-2.15``.
    """
    return f"plan_{environment_name(gpu, torch_version)}"


def load(directory: Path, environment: str, kind: Kind = "speed") -> Baselines:
    """Return an environment's baselines. If the baseline file cannot be used, the result's ``problem`` contains the
    reason.
    """
    path = directory / environment / f"{kind}.json"
    try:
        entries, _ = _read(path, environment, kind)
    except FileNotFoundError:
        # An environment with the same device is more useful than one with a similar name.
        others = [one.parent.name for one in directory.glob(f"*/{kind}.json")]
        same_device = [one for one in others if one.split("_")[0] == environment.split("_")[0]]
        alike = [(SequenceMatcher(None, one, environment).ratio(), one) for one in same_device or others]
        return Baselines(environment, path, nearest=max(alike, default=(0.0, ""))[1])
    except BaselineError as error:
        return Baselines(environment, path, problem=str(error))
    return Baselines(environment, path, entries)


def update(directory: Path, environment: str, merge: Merge, kind: Kind = "speed") -> Update:
    """Update the entries of a baseline file that other processes may update at the same time.

    ``merge`` runs while the file is locked. Unchanged entries are not touched, and the file is written only if an entry
    has changed. A damaged file is renamed and reported, not overwritten.

    Raises:
        BaselineError: If the file has a different schema version, belongs to a different environment, or cannot be read
            or written, or if the new entries contain a NaN or an infinite value.
    """
    # Imported here, because most sessions do not store anything and do not need a lock.
    from filelock import Timeout

    path = directory / environment / f"{kind}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with machine_lock(hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]).acquire(WAIT_SECONDS):
            remove_leftovers(path.parent, path.name)  # an unwritable folder is reported even if no entry changed
            return _update(path, environment, merge, kind)
    except Timeout:
        raise BaselineError(f"another process has been writing {path} for {WAIT_SECONDS:.0f} s") from None
    except OSError as error:
        raise _not_written(path, error) from None


def _not_written(path: Path, error: OSError) -> BaselineError:
    return BaselineError(f"{path} cannot be written: {error.strerror or error}")


def _update(path: Path, environment: str, merge: Merge, kind: Kind) -> Update:
    old: Mapping[str, Entry] = {}
    top: Mapping[str, Any] = {}
    kept = None
    try:
        old, top = _read(path, environment, kind)
    except FileNotFoundError:
        pass
    except Corrupt:
        kept = set_aside(path)
    rows = []
    for test, after in sorted(merge(old).items()):
        before = old.get(test)
        if before != after:
            rows.append(Row(test, "removed" if after is None else "changed" if before else "added", before, after))
    if rows:
        entries = {**old, **{row.test: row.after for row in rows}}
        header = {"schema_version": SCHEMA_VERSION, "environment": environment}
        document = {
            **top,
            KEY: header,
            LIST_OF_ENTRIES[kind]: [entry for _, entry in sorted(entries.items()) if entry is not None],
        }
        if kind == "speed":
            # Required by pytest-benchmark's reader.
            document = {"machine_info": {}, "commit_info": {}, "datetime": "", "version": "", **document}
        write(path, document)
    return Update(path, tuple(rows), kept)


class Corrupt(BaselineError):
    """Raised when a file is damaged or is not a baseline. ``update`` renames such a file."""


def _read(path: Path, environment: str, kind: Kind) -> tuple[dict[str, Entry], dict[str, Any]]:
    """Return the entries of a file, keyed by test id, and the file's other keys."""
    document = parse(path)
    header, listed = document.pop(KEY, None), document.pop(LIST_OF_ENTRIES[kind], None)
    if not isinstance(header, dict) or not isinstance(listed, list):
        raise Corrupt(
            f"{path} is not a {kind} baseline: it must contain the header {KEY!r} and the list "
            f"{LIST_OF_ENTRIES[kind]!r}"
        )
    if header.get("schema_version") != SCHEMA_VERSION:
        raise BaselineError(
            f"{path} has schema version {schema.shown(header.get('schema_version'))}, but this plugin requires version "
            f"{SCHEMA_VERSION}; install the plugin version that wrote the file, or delete the file and record the "
            "baseline again"
        )
    if header.get("environment") != environment:
        raise BaselineError(f"{path} was recorded on {schema.shown(header.get('environment'))}, not on {environment}")
    if wrong := schema.problem(listed, {"type": "array", "items": stored.NAMED}):
        raise Corrupt(f"{path} is not a {kind} baseline: {wrong}")
    entries: dict[str, Entry] = {}
    for entry in listed:
        name = entry["fullname"]
        wrong = schema.problem(entry, stored.SCHEMAS[kind])
        if name in entries:  # both sides of a merge can add an entry
            wrong = "the file contains two entries with this name"
        if wrong:
            raise Corrupt(f"{path} is damaged in the entry for {schema.shown(name, 200)}: {wrong}; {RESTORE}")
        entries[name] = entry
    return entries, document


def parse(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        FileNotFoundError: If the file does not exist.
        Corrupt: If the file cannot be parsed, contains a NaN, or does not contain a JSON object.
        BaselineError: If the file cannot be read.
    """
    try:
        content = schema.read(path)
    except FileNotFoundError:
        raise
    except schema.Refused as refused:
        raise Corrupt(f"{path} cannot be read: it {refused}; {RESTORE}") from None
    except OSError as error:
        raise BaselineError(f"{path} cannot be read: {error.strerror}") from None
    if not isinstance(content, dict):
        raise Corrupt(f"{path} is not a baseline: its top level is a {type(content).__name__}, not a mapping")
    return content


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON document atomically, with sorted keys, indentation, and each list of numbers on one line.

    Raises:
        BaselineError: If the document contains a NaN or an infinite value, or cannot be written.
    """
    try:
        text = json.dumps(document, indent=2, sort_keys=True, allow_nan=False)
    except ValueError:
        raise BaselineError(f"a measurement for {path} is NaN or infinite; nothing was written") from None
    # Each list of numbers is joined into one line, so that a diff shows a changed list as one changed line.
    text = re.sub(r"\[\n\s+([-+.\deE,\s]+?)\n\s+\]", lambda numbers: f"[{' '.join(numbers[1].split())}]", text)
    try:
        write_atomically(path, text + "\n")
    except OSError as error:
        raise _not_written(path, error) from None


def set_aside(path: Path) -> Path:
    """Rename a damaged file, and return its new path."""
    number = 1
    while (kept := path.with_name(f"{path.name}.corrupt-{number}")).exists():
        number += 1
    return path.rename(kept)
