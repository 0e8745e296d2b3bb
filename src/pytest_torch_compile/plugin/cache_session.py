"""``--compile-cache`` in a session: set the cache folder before each test, and save the cache at the end."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from .. import settings
from ..cache.folder import CacheFolder
from ..cache.store import ArtifactsRefused
from ..report.safe_text import terminal
from . import torchrun, unwritten, usage

_FOLDER: pytest.StashKey[CacheFolder] = pytest.StashKey()
_LINES: pytest.StashKey[list[str]] = pytest.StashKey()


def begin(config: pytest.Config) -> None:
    """Open the cache that the settings specify.

    Raises:
        pytest.UsageError: If the cache is at a URL that cannot be used on this machine.
    """
    choice = settings.current.cache
    try:
        config.stash[_FOLDER] = CacheFolder(choice, config.rootpath, leads=torchrun.leads(config))
    except ArtifactsRefused as error:
        raise pytest.UsageError(f"--compile-cache={choice}: {error}") from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Set the cache folder before a test that uses the plugin."""
    if usage.uses_plugin(item):
        item.config.stash[_FOLDER].enter_test()
    return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save the compile cache if it is at a URL. If saving fails, the next run starts with an older cache."""
    try:
        session.config.stash[_LINES] = session.config.stash[_FOLDER].finish()
    except Exception as error:  # an exception would suppress pytest's summary
        session.config.stash[_LINES] = [f"the cache was not saved: {unwritten.reason(error)}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was saved."""
    for line in config.stash.get(_LINES, []):
        terminalreporter.write_line(terminal(f"torch.compile cache: {line}"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Restore the environment variables, and remove temporary files."""
    if _FOLDER in config.stash:
        config.stash[_FOLDER].close()
