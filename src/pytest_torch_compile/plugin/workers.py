"""Assign a GPU to each pytest-xdist worker, and enable pytest-benchmark in the workers."""

from __future__ import annotations

import os

import pytest

from . import options

VARIABLE = "PYTEST_XDIST_WORKER"
_NAME: pytest.StashKey[str] = pytest.StashKey()


def one_for_each_gpu(config: pytest.Config) -> int | None:
    """Return the number of workers for ``-n auto``, or None for pytest-xdist's default."""
    if options.read(config).perf == "off":
        return None
    from ..speed.gpus import visible

    return len(visible()) or None


def measure_alone(config: pytest.Config) -> None:
    """Assign a GPU to a worker, and enable pytest-benchmark, which is normally disabled in workers.

    pytest-benchmark disables itself if ``PYTEST_XDIST_WORKER`` is set when pytest is configured, so this variable is
    removed until the session starts.
    """
    from ..speed.gpus import give_worker_its_own

    name, count = config.workerinput["workerid"], config.workerinput["workercount"]  # type: ignore[attr-defined]
    give_worker_its_own(int(name.removeprefix("gw")), int(count))
    if os.environ.pop(VARIABLE, None) is not None:
        config.stash[_NAME] = name


def say_so_again(config: pytest.Config) -> None:
    """Restore ``PYTEST_XDIST_WORKER``, because the user's tests may read it."""
    if _NAME in config.stash:
        os.environ[VARIABLE] = config.stash[_NAME]
