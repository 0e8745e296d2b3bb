"""Record which tests were collected, so that baseline entries that no test uses can be found."""

from __future__ import annotations

import pytest

from . import usage

_SPEED_TESTS: pytest.StashKey[list[str]] = pytest.StashKey()
_PLANNABLE_TESTS: pytest.StashKey[list[str]] = pytest.StashKey()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record all collected speed tests, and tests that may have a plan, before any test is deselected."""
    if not (items and all(map(usage.shows_existing, items))):
        config.stash[_SPEED_TESTS] = [item.nodeid for item in items if usage.is_speed_test(item)]
        config.stash[_PLANNABLE_TESTS] = [item.nodeid for item in items if usage.can_be_planned(item)]


def speed_tests(config: pytest.Config) -> tuple[list[str], list[str]]:
    """Return the collected speed tests, and the file of each command-line argument that selects tests by id."""
    return config.stash.get(_SPEED_TESTS, []), _partly_selected(config)


def plannable_tests(config: pytest.Config) -> tuple[list[str], list[str]]:
    """Return the collected tests that may have a plan, and the files in which tests were selected by id."""
    return config.stash.get(_PLANNABLE_TESTS, []), _partly_selected(config)


def _partly_selected(config: pytest.Config) -> list[str]:
    return [argument.split("::")[0] for argument in config.args if "::" in argument]
