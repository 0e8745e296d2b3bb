"""Record which tests were collected, so that baseline entries that no test uses can be found.

The workers of pytest-xdist send their record to the controller, which does not collect tests itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Literal

import pytest

from . import usage

Kind = Literal["speed", "plannable"]

_COLLECTED: pytest.StashKey[dict[Kind, list[pytest.Item]]] = pytest.StashKey()
_RECEIVED: pytest.StashKey[dict[Kind, list[str]]] = pytest.StashKey()  # only in the controller of pytest-xdist
_OF_WORKER = "torch_compile_collected"  # the key in a pytest-xdist worker's ``workeroutput``


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record all collected speed tests, and tests that may have a plan, before any test is deselected."""
    if not (items and all(map(usage.shows_existing, items))):
        found: dict[Kind, list[pytest.Item]] = {
            "speed": list(filter(usage.is_speed_test, items)),
            "plannable": list(filter(usage.can_be_planned, items)),
        }
        config.stash[_COLLECTED] = found


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker, send the record to the controller. The list of tests that pytest-xdist sends to the controller does
    not contain the deselected tests.
    """
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OF_WORKER] = _ids_here(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """In the controller, receive the record of a worker. All workers collect the same tests, but a worker that crashed
    sends nothing.
    """
    if received := getattr(node, "workeroutput", {}).get(_OF_WORKER):
        node.config.stash[_RECEIVED] = received


def speed_tests(config: pytest.Config) -> tuple[list[str], list[str]]:
    """Return the collected speed tests, and the files from which only some tests were collected."""
    return _collected(config, "speed")


def plannable_tests(config: pytest.Config) -> tuple[list[str], list[str]]:
    """Return the collected tests that may have a plan, and the files from which only some tests were collected."""
    return _collected(config, "plannable")


def _collected(config: pytest.Config, kind: Kind) -> tuple[list[str], list[str]]:
    tests = (config.stash.get(_RECEIVED, None) or _ids_here(config)).get(kind, [])
    if getattr(config.option, "lf", False):  # pytest does not collect the tests that passed in the last run
        return tests, sorted({test.split("::")[0] for test in tests})
    return tests, list(_partly_selected(config))


def _ids_here(config: pytest.Config) -> dict[Kind, list[str]]:
    # The ids are read late, because with --dist=loadgroup, pytest-xdist adds the group to the ids, and so to the names
    # of the baseline entries.
    return {kind: [item.nodeid for item in items] for kind, items in config.stash.get(_COLLECTED, {}).items()}


def _partly_selected(config: pytest.Config) -> Iterator[str]:
    """Yield the file of each argument that selects tests by id. Like the file in a test id, it is relative to the root
    directory.
    """
    here = config.invocation_params.dir
    for argument in config.args:
        path, separator, _ = argument.partition("::")
        if not separator:
            continue
        if getattr(config.option, "pyargs", False) and not (here / path).exists():
            with suppress(ImportError, ValueError):  # then the argument is not the name of a module
                path = getattr(find_spec(path), "origin", None) or path
        yield os.path.relpath(here / path, config.rootpath).replace(os.sep, "/")
