"""The hooks of a whole session: read the settings, and begin the features that the settings require.

A feature's own hooks are in the feature's module. Torch is imported only when a test uses the plugin.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from .. import settings
from . import (
    acceptance_session,
    cache_session,
    collector,
    in_child,
    options,
    plan_session,
    structure_session,
    termination,
    torchrun,
    tracebacks,
    usage,
    workers,
)

_OUTER: pytest.StashKey[settings.Settings] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """If a launcher such as torchrun started this process, record any SIGTERM that arrives while conftest files are
    imported.
    """
    torchrun.note_sigterm(early_config)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """In child processes of this plugin, and on all ranks except rank 0, reset other plugins' options before those
    plugins read them.
    """
    in_child.begin(config)
    torchrun.begin(config)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, read the settings, and begin the features."""
    config.addinivalue_line(
        "markers", f"{usage.MARKER}(**options): check_compile options that this test's compile_check uses"
    )
    in_child.begin_worker(config)
    config.stash[_OUTER], settings.current = settings.current, options.read(config)
    workers.begin(config)
    tracebacks.begin(config)
    torchrun.join(config)
    cache_session.begin(config)
    chosen = settings.current
    writes = chosen.report or chosen.perf != "off" or chosen.plan or chosen.update_baselines
    if writes and torchrun.leads(config):
        termination.end_in_order(config)
    # Each of these registers a plugin if its option is set. The plugin that was registered last is called first.
    for feature in (
        collector.begin,
        acceptance_session.begin,
        _begin_existing,
        structure_session.begin,
        plan_session.begin,
    ):
        feature(config)


def _begin_existing(config: pytest.Config) -> None:
    if settings.current.existing:
        from ..existing.session import ExistingSession

        backend = options.backend_asked_for(config)
        session = ExistingSession(config, backend, lambda line: usage.speaker(config)(line))
        config.pluginmanager.register(session, "torch-compile-existing")


def pytest_unconfigure(config: pytest.Config) -> None:
    """If this session ran inside another session, restore the settings of the outer session."""
    if _OUTER in config.stash:
        settings.current = config.stash[_OUTER]
