"""Assign a GPU and memory to each pytest-xdist worker, and enable pytest-benchmark in the workers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from .. import settings
from . import options, usage

VARIABLE = "PYTEST_XDIST_WORKER"
_NAME: pytest.StashKey[str] = pytest.StashKey()


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """With ``-n auto`` and ``--compile-perf``, start as many workers as can compile at the same time. The workers of a
    GPU compile at the same time, and measure one after another.
    """
    if options.read(config).perf == "off":
        return None
    from ..speed.gpus import workers

    return workers()


def begin(config: pytest.Config) -> None:
    """With ``--compile-perf``, assign a GPU to a worker, and enable pytest-benchmark, which is normally disabled in
    workers. A process that was started to confirm a change also shares a GPU with the workers.

    pytest-benchmark disables itself if ``PYTEST_XDIST_WORKER`` is set when pytest is configured, so this variable is
    removed until the session starts.
    """
    if settings.current.perf == "off":
        return
    from ..speed.fresh_process import CONFIRMS
    from ..speed.gpus import ONE_THREAD, THREADS, give_worker_a_gpu, visible
    from ..speed.measuring.cores import leave_free
    from ..speed.measuring.turns import register

    if hasattr(config, "workerinput"):
        uuid = give_worker_a_gpu(int(config.workerinput["workerid"].removeprefix("gw")))
        if (name := os.environ.pop(VARIABLE, None)) is not None:
            config.stash[_NAME] = name
        if uuid:
            register(uuid, pausable=True)
            leave_free(len(visible()))
            config.pluginmanager.register(
                SharedGpu(uuid, settings.below_root(config.rootpath, settings.current.baselines)),
                "torch-compile-shared-gpu",
            )
            if THREADS not in os.environ:  # the workers use all cores, so each compiler needs only one
                os.environ.update({THREADS: "1", ONE_THREAD: "1"})
    elif confirms := os.environ.get(CONFIRMS):
        register(confirms, pausable=True, urgent=True)  # a test waits for this process
        leave_free(len(visible()))


class SharedGpu:
    """A plugin for a worker that shares a GPU: a speed test starts once the GPU has enough free memory."""

    def __init__(self, uuid: str, baselines: Path) -> None:
        from ..baselines.structure import memory_of_tests
        from ..speed.fresh_process import MEMORY
        from ..speed.measuring.turns import needed_by_test

        self.uuid = uuid
        stored = {test: needed_by_test(memory) for test, memory in memory_of_tests(baselines).items()}
        self.needed: dict[str, int] = stored | json.loads(os.environ.get(MEMORY, "{}"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Reserve the memory of a speed test; a test without a baseline gets the GPU for itself."""
        from ..speed.measuring.turns import memory_for_test, use_again

        use_again(self.uuid)
        if not usage.is_speed_test(item):
            return (yield)
        with ExitStack() as reserved:
            with usage.showing_progress(item):
                reserved.enter_context(memory_for_test(self.uuid, self.needed.get(item.nodeid) or None))
            try:
                return (yield)
            finally:
                # Other processes need the memory that torch would keep for the next test.
                with suppress(Exception):  # after an error of the device, every call fails
                    if (torch := sys.modules.get("torch")) and torch.cuda.is_initialized():
                        torch.cuda.empty_cache()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Restore ``PYTEST_XDIST_WORKER``, because the user's tests may read it."""
    if _NAME in session.config.stash:
        os.environ[VARIABLE] = session.config.stash[_NAME]
