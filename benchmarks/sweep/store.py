"""The results of one torch version, in one JSON document that is rewritten after every case. Does not import torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_torch_compile.disk import write_atomically

SCHEMA_VERSION = 1
# Kinds of findings that the page counts separately. The page shows all other kinds as wrong results.
SHARED_KINDS = ("graph-break", "recompile", "eager-fallback", "cudagraph-skip")
Document = dict[str, Any]


class StoreError(ValueError):
    """Raised for a file that does not contain results of the sweep."""


def new(environment: Mapping[str, str]) -> Document:
    return {"schema_version": SCHEMA_VERSION, "environment": dict(environment), "cases": {}}


def read(path: Path) -> Document:
    """Return the document in a file.

    Raises:
        StoreError: If the file is not JSON, or has a different schema.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(found, dict) or found.get("schema_version") != SCHEMA_VERSION:
        raise StoreError(f"{path} does not contain sweep results with schema version {SCHEMA_VERSION}")
    return found


def resumed(path: Path, environment: Mapping[str, str]) -> Document:
    """Return the document to continue with: the existing results of this environment, or an empty document."""
    if path.exists() and (found := read(path))["environment"] == dict(environment):
        return found
    return new(environment)


def done(path: Path, environment: Mapping[str, str]) -> set[str]:
    """Return the names of the cases that have a result in this environment."""
    return set(resumed(path, environment)["cases"])


def write(document: Document, path: Path) -> None:
    """Write a document atomically, so that a reader sees either the old or the new document."""
    write_atomically(path, json.dumps(document, indent=1, sort_keys=True) + "\n")
