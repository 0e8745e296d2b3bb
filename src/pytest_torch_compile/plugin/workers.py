"""Assign a GPU to each pytest-xdist worker, and enable pytest-benchmark in the workers."""

from __future__ import annotations

import os

import pytest

from .. import settings
from . import options

VARIABLE = "PYTEST_XDIST_WORKER"
_NAME: pytest.StashKey[str] = pytest.StashKey()


def as_many_as_can_compile(config: pytest.Config) -> int | None:
    """Return the number of workers for ``-n auto``, or None for pytest-xdist's default.

    The workers of a GPU compile at the same time, and measure one after another.
    """
    chosen = options.read(config)
    if chosen.perf == "off":
        return None
    from ..baselines.structure import memory_of_tests
    from ..speed.gpus import workers

    return workers(memory_of_tests(settings.below_root(config.rootpath, chosen.baselines)))


def share_a_gpu(config: pytest.Config) -> None:
    """Register this process for the GPU that it shares with the other processes of the run. Assign a GPU to a worker,
    and enable pytest-benchmark, which is normally disabled in workers.

    pytest-benchmark disables itself if ``PYTEST_XDIST_WORKER`` is set when pytest is configured, so this variable is
    removed until the session starts.
    """
    from ..speed.fresh_process import CONFIRMS
    from ..speed.gpus import give_worker_its_own
    from ..speed.measuring.turns import register

    if device := os.environ.get(CONFIRMS):
        register(device)
    if not hasattr(config, "workerinput"):
        return
    name, count = config.workerinput["workerid"], config.workerinput["workercount"]
    if uuid := give_worker_its_own(int(name.removeprefix("gw"))):
        register(uuid)
    if int(count) > 1:  # the workers use all cores, so a worker's compiler needs only one
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    if os.environ.pop(VARIABLE, None) is not None:
        config.stash[_NAME] = name


def say_so_again(config: pytest.Config) -> None:
    """Restore ``PYTEST_XDIST_WORKER``, because the user's tests may read it."""
    if _NAME in config.stash:
        os.environ[VARIABLE] = config.stash[_NAME]
