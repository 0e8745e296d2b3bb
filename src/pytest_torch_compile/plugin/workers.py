"""Workers of pytest-xdist: each has a GPU of its own, and pytest-benchmark times in it."""

from __future__ import annotations

import os

import pytest

from . import options

VARIABLE = "PYTEST_XDIST_WORKER"
_NAME: pytest.StashKey[str] = pytest.StashKey()


def one_for_each_gpu(config: pytest.Config) -> int | None:
    """How many workers ``-n auto`` starts; None leaves it to pytest-xdist."""
    if options.read(config).perf == "off":
        return None
    from ..speed.gpus import visible

    return len(visible()) or None


def measure_alone(config: pytest.Config) -> None:
    """Give a worker its GPU, and have pytest-benchmark time in it, which it does not do where it sees a worker.

    It looks at a variable of the environment when it is configured, so that the variable is put back after that.
    """
    from ..speed.gpus import give_worker_its_own

    name, count = config.workerinput["workerid"], config.workerinput["workercount"]  # type: ignore[attr-defined]
    give_worker_its_own(int(name.removeprefix("gw")), int(count))
    if os.environ.pop(VARIABLE, None) is not None:
        config.stash[_NAME] = name


def say_so_again(config: pytest.Config) -> None:
    """Put back what tests of the user may read."""
    if _NAME in config.stash:
        os.environ[VARIABLE] = config.stash[_NAME]
