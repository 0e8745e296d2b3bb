"""Find tests that use the plugin, and reset the compiler's state before and after these tests."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import CodeType

import pytest

from .. import __name__ as PACKAGE
from .._torch.compiled_before import compiled_codes, drop
from .._torch.deviations import note_before_tests, note_left_by
from .._torch.warning_filters import calm

MARKER = "torch_compile"
SPEED_FIXTURE, CHECK_FIXTURE = "compile_benchmark", "compile_check"
FIXTURES = {SPEED_FIXTURE, CHECK_FIXTURE, "compile_options", "compile_tolerances", "compile_device"}
COMPILED_BEFORE: pytest.StashKey[list[CodeType]] = pytest.StashKey()
_GUARDED: pytest.StashKey[bool] = pytest.StashKey()
# A file that uses the plugin contains at least one of these names.
_NAMES = re.compile(r"pytest_torch_compile|compile_check|compile_benchmark|mark\.torch_compile")


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


def starts_fresh(item: pytest.Item) -> bool:
    """Return whether compiled code is discarded before a test. Compiled code is discarded if the test uses the plugin,
    or if the test's module imports ``compile_guard`` or this package.
    """
    guard = sys.modules.get(f"{PACKAGE}.check.compile_guard")
    known = [one for one in (sys.modules[PACKAGE], guard, getattr(guard, "compile_guard", None)) if one is not None]
    values = vars(getattr(item, "module", None) or object).values()
    return uses_plugin(item) or any(value is one for value in values for one in known)


def first_guard(item: pytest.Item) -> None:
    """At a test's first ``compile_guard``, discard the code that earlier tests compiled. Otherwise, torch could reuse
    this code without compiling anything that ``compile_guard`` can observe.
    """
    if _GUARDED in item.stash:
        return
    item.stash[_GUARDED] = True
    if starts_fresh(item):
        return
    before = item.stash[COMPILED_BEFORE]
    if len(compiled_codes()) == len(before):
        reset()
    else:
        drop(before)


def enter(item: pytest.Item) -> None:
    """Before a test, record the torch settings, and discard compiled code if ``starts_fresh(item)`` is true."""
    note_before_tests()
    if starts_fresh(item):
        reset()
    item.stash[COMPILED_BEFORE] = compiled_codes()


def leave(item: pytest.Item) -> None:
    """After a test, record the torch settings that the test left changed, and discard compiled code if the test used
    the plugin or ``compile_guard``.
    """
    if "torch" in sys.modules and (starts_fresh(item) or _GUARDED in item.stash):
        reset()
    note_left_by(item.nodeid)


def reset() -> None:
    """Discard all compiled code."""
    from .._torch.reset import reset_dynamo

    with calm():
        reset_dynamo()


def speaker(config: pytest.Config) -> Callable[[str], None]:
    """Return a function that writes a line to the terminal, even while pytest captures the output of a test."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not hasattr(reporter, "ensure_newline"):  # a pytest-xdist worker has no terminal
        return lambda text: None

    capture = config.pluginmanager.get_plugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            reporter.ensure_newline()
            reporter.write_line(text)

    return say
