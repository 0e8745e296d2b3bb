"""The pytest plugin: the hooks, the fixtures, and other code that imports pytest."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options, and register the modules whose hooks pytest calls in every session.

    The modules are listed in the order in which pytest calls their hooks. The order matters: for example, the cache
    folder is set before compiled code is discarded, because that imports torch. Plugins that depend on the settings are
    registered later, in ``hooks.pytest_configure``.
    """
    # Imported here, so that a module of this package can be imported without all others.
    from . import (
        cache_session,
        checks_session,
        collected_tests,
        compiled_state,
        fixtures,
        header,
        hooks,
        isolate,
        known_failure,
        options,
        orphaned,
        speed_session,
        termination,
        workers,
    )

    options.add_options(parser)
    called = (
        checks_session,
        speed_session,
        known_failure,
        orphaned,
        termination,
        cache_session,
        compiled_state,
        collected_tests,
        header,
        isolate,
        workers,
        hooks,
        fixtures,
    )
    for module in reversed(called):  # the plugin that was registered last is called first
        pluginmanager.register(module, module.__name__)
