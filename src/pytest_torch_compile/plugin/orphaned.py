"""Make a process exit about a second after its parent. Without this module, pytest-xdist workers continue for up to 15
seconds after their session is killed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from . import usage

SECONDS = 1.0  # how often to check whether the parent is still running
PARENT = os.getppid()  # read at import: if the parent has already exited by now, this module cannot detect its exit


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """When a pytest-xdist worker collects a test file that uses the plugin, make sure that the worker exits soon after
    its controller exits.
    """
    if hasattr(parent.config, "workerinput") and usage.names_plugin(module_path):
        end_with_session()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """At the latest, make sure of this before a test that uses the plugin, whose file need not name the plugin."""
    if hasattr(item.config, "workerinput") and usage.uses_plugin(item):
        end_with_session()
    return (yield)


@cache
def end_with_session(before: Callable[[], None] = lambda: None, parent: int = PARENT) -> None:
    """Start a thread that calls ``before`` and exits this process once the parent process has exited. A second call
    with the same arguments does nothing.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS)
        before()
        os._exit(1)  # an exception would end only this thread

    threading.Thread(target=watch, daemon=True, name="torch-compile session watch").start()
