"""Find the tests that use the plugin, and write to the terminal while they run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from .. import __name__ as PACKAGE
from ..events import sign_of_life

MARKER = "torch_compile"
SPEED_FIXTURE, CHECK_FIXTURE = "compile_benchmark", "compile_check"
FIXTURES = {SPEED_FIXTURE, CHECK_FIXTURE, "compile_options", "compile_tolerances", "compile_device"}
# A file that uses the plugin contains at least one of these names.
_NAMES = re.compile(r"pytest_torch_compile|compile_check|compile_benchmark|mark\.torch_compile")
# All pytest-xdist workers may report their progress at the same time, so each of them reports less often.
_SLOWER_IN_A_WORKER = 4


def names_plugin(file: Path) -> bool:
    """Return whether a file seems to use the plugin. This function searches the source text, because importing the file
    could import torch, which takes seconds.
    """
    try:
        return _NAMES.search(file.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False


def uses_plugin(item: pytest.Item) -> bool:
    """Return whether a test uses a fixture or marker of the plugin, belongs to a CompileSuite, or was added by
    ``--compile-existing``.
    """
    bases = getattr(getattr(item, "cls", None), "__mro__", ())
    return (
        not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        # The class is identified by name, because importing it would import torch.
        or any(base.__module__ == f"{PACKAGE}.check.compile_suite" for base in bases)
        or item.get_closest_marker(MARKER) is not None
        or shows_existing(item)
    )


def shows_existing(item: pytest.Item) -> bool:
    """Return whether a test is one of the tests that ``--compile-existing`` adds to show its results."""
    return getattr(item, "shows_existing", False)


def is_speed_test(item: pytest.Item) -> bool:
    """Return whether a test measures speed."""
    return SPEED_FIXTURE in getattr(item, "fixturenames", ())


def can_be_planned(item: pytest.Item) -> bool:
    """Return whether ``--compile-plan`` may create a plan for a test."""
    return not {SPEED_FIXTURE, CHECK_FIXTURE}.isdisjoint(getattr(item, "fixturenames", ()))


def speaker(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that writes a line to the terminal, even while pytest captures the output of a test. A
    pytest-xdist worker writes to its stderr, which is the terminal of the run.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    worker = getattr(config, "workerinput", {}).get("workerid")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            if worker:
                print(f"[{worker}] {text}", file=sys.stderr, flush=True)
            elif hasattr(reporter, "ensure_newline"):
                reporter.ensure_newline()
                reporter.write_line(text)

    return say


def showing_progress(item: pytest.Item) -> AbstractContextManager[None]:
    """Inside the ``with`` block, report from time to time what the test is doing."""
    slower = _SLOWER_IN_A_WORKER if hasattr(item.config, "workerinput") else 1
    return sign_of_life(speaker(item.config), item.nodeid, slower)
