"""The result document ``report.json``: create, read, write and merge it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from ..baselines import schema
from ..disk import write_atomically
from .safe_text import json_text

SCHEMA_VERSION = 1
FILE_NAME = "report.json"
HISTORY_LENGTH = 30
# The number of test selections (such as all tests, or -k attention) for which a history is kept.
SELECTIONS = 4
# From best to worst; merging keeps a test's worst outcome.
OUTCOMES = ("skipped", "passed", "xfailed", "failed", "error")
STOPPED_EARLY = "stopped early"  # the end of the selection of a run that did not run all of its tests
Document = dict[str, Any]


class DocumentError(ValueError):
    """Raised for a file that is not a report or has another schema version; the message is one line."""


def new(
    tests: Iterable[Mapping[str, Any]],
    environments: Mapping[str, Mapping[str, Any]],
    *,
    created: str,
    version: str,
    exit_status: int = 0,
    commit: str = "",
    history: Sequence[Mapping[str, Any]] = (),
    selection: str = "",
) -> Document:
    """Create a document with these tests. ``history`` contains the history points of earlier documents, oldest first.

    ``selection`` describes the selected tests; it is empty if all tests were selected.
    """
    entries = sorted((clean(test) for test in tests), key=lambda test: (test["id"], test["environment"]))
    document: Document = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "pytest-torch-compile", "version": version},
        "created": created,
        "commit": commit,
        "selection": clean(selection),
        "exit_status": exit_status,
        "environments": clean(environments),
        "tests": entries,
        "summary": summary(entries, exit_status),
    }
    document["history"] = _kept([*clean(list(history)), point(document)])
    return document


def _kept(history: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Keep the newest history points for the test selection of the most recent run, and for the selections with the
    most tests. Runs of a few tests therefore do not displace runs of all tests.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for at in history:
        groups.setdefault(at.get("selection", ""), []).append(at)
    own = history[-1].get("selection", "")
    others = sorted((name for name in groups if name != own), key=lambda name: len(groups[name][-1]["tests"]))
    names = {own, *others[1 - SELECTIONS :]}
    kept = {id(at) for name in names for at in groups[name][-HISTORY_LENGTH:]}
    return [at for at in history if id(at) in kept]


def summary(tests: Sequence[Mapping[str, Any]], exit_status: int) -> dict[str, Any]:
    """Return the counts for the summary. ``speedup`` is the geometric mean over the speed tests, or None if no speed
    test has a speedup.
    """
    outcomes = Counter(test["outcome"] for test in tests)
    checks = [check for test in tests for check in test["checks"]]
    speedups = [speed["speedup"] for test in tests for speed in test["speed"] if speed["speedup"]]
    if outcomes["failed"] or outcomes["error"] or exit_status == 1:
        result = "failed"
    elif exit_status not in (0, 5):  # 5 is pytest's "no tests collected"
        result = "error"
    else:
        result = "passed" if sum(outcomes.values()) else "empty"
    return {
        "result": result,
        "tests": len(tests),
        **{outcome: outcomes[outcome] for outcome in OUTCOMES},
        "checks": len(checks),
        "findings": sum(len(check["findings"]) for check in checks),
        "graph_breaks": sum(len(check["graph_breaks"]) for check in checks),
        "recompiles": sum(len(check["recompiles"]) for check in checks),
        "regressions": sum(speed["outcome"] == "regressed" for test in tests for speed in test["speed"]),
        "speedup": geometric_mean(speedups) if speedups else None,
    }


def incomplete(document: Mapping[str, Any]) -> str:
    """Return the reason why some tests of a run may have no results, or an empty string if the run finished."""
    status = document["exit_status"]
    if status not in (0, 1, 5):
        return f"pytest ended with status {status}"
    return STOPPED_EARLY if STOPPED_EARLY in document.get("selection", "") else ""


def point(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the history point of this document: each test's outcome and a few numbers."""
    return {
        "created": document["created"],
        "commit": document["commit"],
        "selection": document.get("selection", ""),
        "tests": {key_of(test): _figures(test) for test in document["tests"]},
    }


def _figures(test: Mapping[str, Any]) -> dict[str, Any]:
    speedups = [speed["speedup"] for speed in test["speed"] if speed["speedup"]]
    return {
        "outcome": test["outcome"],
        "breaks": sum(len(check["graph_breaks"]) for check in test["checks"]),
        "recompiles": sum(len(check["recompiles"]) for check in test["checks"]),
        "compile_seconds": round(sum(compile_seconds(check) for check in test["checks"]), 3),
        "speedup": speedups[0] if speedups else None,
    }


def compile_seconds(check: Mapping[str, Any]) -> float:
    """Return the seconds that a check spent on compilation, including the backward pass."""
    return float(check["compile_seconds"]["total"] + check["compile_seconds"]["backward"])


def key_of(test: Mapping[str, Any]) -> str:
    """Return the key of a test: its environment and id."""
    return f"{test['environment']} {test['id']}"


def clean(value: Any) -> Any:
    """Convert a value for strict JSON: floats that are not finite become None, tuples and sets become lists, and other
    types become strings of valid UTF-8.
    """
    if isinstance(value, Mapping):
        return {clean(str(name)): clean(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int)):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def read(path: Path) -> Document:
    """Return the document in a file, or in a folder's ``report.json``.

    Raises:
        DocumentError: If the file is missing, cannot be parsed, or does not match the schema.
    """
    path = path / FILE_NAME if path.is_dir() else path
    try:
        content = schema.read(path)
    except OSError as error:
        raise DocumentError(f"{path} cannot be read: {error.strerror}") from None
    except schema.Refused as refused:
        raise DocumentError(f"{path} {refused}") from None
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version is None or not isinstance(content.get("tests"), list) or not isinstance(content.get("summary"), dict):
        raise DocumentError(f"{path} is not a pytest-torch-compile report")
    if version != SCHEMA_VERSION:
        raise DocumentError(
            f"{path} has schema version {schema.shown(version)}, but this plugin requires version {SCHEMA_VERSION}"
        )
    if wrong := schema.problem(content, report_schema()):
        raise DocumentError(f"{path} is not a valid report: {wrong}")
    return dict(content)


@cache
def report_schema() -> schema.Schema:
    """Return the schema of reports, ``report.schema.json``."""
    text = resources.files(__package__).joinpath("report.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def write(document: Mapping[str, Any], path: Path) -> Path:
    """Write a document atomically."""
    return write_atomically(path, dumps(document))


def dumps(document: Mapping[str, Any]) -> str:
    """Return a document as a JSON string."""
    return json_text(document)


def merge(documents: Sequence[Mapping[str, Any]]) -> Document:
    """Merge the documents from several shards, torch versions or machines.

    A test is identified by its id and environment. If several documents contain a test, the result with the worst
    outcome is kept.

    Raises:
        DocumentError: If there is nothing to merge.
    """
    if not documents:
        raise DocumentError("there are no reports to merge")
    tests: dict[str, Mapping[str, Any]] = {}
    environments: dict[str, Any] = {}
    for document in documents:
        environments |= document["environments"]
        for test in document["tests"]:
            known = tests.get(key_of(test))
            if known is None or OUTCOMES.index(test["outcome"]) > OUTCOMES.index(known["outcome"]):
                tests[key_of(test)] = test
    # From best to worst: no tests ran, all passed, some failed; any other status is an error that stopped the run.
    order = {5: 0, 0: 1, 1: 2}
    newest = max(documents, key=lambda document: str(document["created"]))
    return new(
        tests.values(),
        environments,
        created=newest["created"],
        version=newest["tool"]["version"],
        exit_status=max((d["exit_status"] for d in documents), key=lambda status: (order.get(status, 3), status)),
        commit=newest["commit"],
        history=_merged_history(documents),
        selection=" + ".join(sorted({document.get("selection", "") for document in documents})),
    )


def _merged_history(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the history points of all documents, except each document's last point, which describes the document's
    own run. Points with the same commit and selection, usually from several shards, are combined into one point.
    """
    merged: dict[tuple[str, str], dict[str, Any]] = {}
    for document in documents:
        for earlier in document["history"][:-1]:
            key = (earlier["commit"] or earlier["created"], earlier.get("selection", ""))
            joined = merged.setdefault(key, {**earlier, "tests": {}})
            joined["tests"] = {**joined["tests"], **earlier["tests"]}
            joined["created"] = max(joined["created"], earlier["created"])
    return sorted(merged.values(), key=lambda earlier: str(earlier["created"]))
