"""The results of one torch version: one JSON document, written whole after every case. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_torch_compile.disk import write_atomically

SCHEMA_VERSION = 1
# Findings that have figures of their own; every other kind says that the numbers, or what came with them, are wrong.
SHARED_KINDS = ("graph-break", "recompile", "eager-fallback", "cudagraph-skip")
Document = dict[str, Any]


class StoreError(ValueError):
    """A file that holds no results of the sweep."""


def new(environment: Mapping[str, str]) -> Document:
    return {"schema_version": SCHEMA_VERSION, "environment": dict(environment), "cases": {}}


def read(path: Path) -> Document:
    """The document in a file.

    Raises:
        StoreError: it is no JSON, or of another schema.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict) or found.get("schema_version") != SCHEMA_VERSION:
        raise StoreError(f"{path} holds no results of the sweep in schema {SCHEMA_VERSION}")
    return found


def resumed(path: Path, environment: Mapping[str, str]) -> Document:
    """The document to go on with: what is there of this environment, otherwise an empty one."""
    if path.exists() and (found := read(path))["environment"] == dict(environment):
        return found
    return new(environment)


def done(path: Path, environment: Mapping[str, str]) -> set[str]:
    """The cases that have a result in this environment."""
    return set(resumed(path, environment)["cases"])


def write(document: Document, path: Path) -> None:
    """Write a document so that a reader sees the old one or the new one."""
    write_atomically(path, json.dumps(document, indent=1, sort_keys=True) + "\n")
