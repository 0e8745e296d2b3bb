"""The plugin, where the tests run from a source tree that is not installed."""

from dataclasses import replace
from importlib import metadata

import pytest

from pytest_torch_compile import settings

if not any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11")):
    pytest_plugins = ["pytest_torch_compile.plugin"]


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Look into no failure of which a test says itself that it must come."""
    settings.current = replace(settings.current, diagnose="off")
