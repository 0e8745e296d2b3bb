"""Fixtures whose value one pytest-xdist worker makes for all workers."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from filelock import FileLock


def once(make: Callable[..., Any]) -> Any:
    """Turn a function into a session fixture. Its value must be picklable.

    Tests run in random order, so pytest would set up a fixture of a module again for nearly every test of the module.
    """

    def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
        folder = tmp_path_factory.getbasetemp()
        folder = folder.parent if folder.name.startswith("popen-") else folder  # pytest-xdist has a folder per worker
        file = folder / f"{make.__module__}.{make.__name__}.pickle"
        with FileLock(f"{file}.lock"):
            if not file.exists():
                needed = {name: request.getfixturevalue(name) for name in inspect.signature(make).parameters}
                file.write_bytes(pickle.dumps(make(**needed)))
        return pickle.loads(file.read_bytes())

    return pytest.fixture(scope="session", name=make.__name__)(shared)
