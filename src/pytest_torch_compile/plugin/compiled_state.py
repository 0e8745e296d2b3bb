"""Discard compiled code before and after the tests that use the plugin, so that every test compiles from scratch."""

from __future__ import annotations

import sys
from collections.abc import Generator
from types import CodeType
from typing import Any

import pytest

from .. import __name__ as PACKAGE
from .._torch.compiled_before import compiled_codes, drop
from .._torch.deviations import note_before_tests, note_left_by
from .._torch.warning_filters import calm
from ..events import hearing_guards
from . import usage

_COMPILED_BEFORE: pytest.StashKey[list[CodeType]] = pytest.StashKey()
_GUARDED: pytest.StashKey[bool] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Before a test, record the torch settings, and discard compiled code if ``starts_fresh(item)`` is true."""
    note_before_tests()
    if starts_fresh(item):
        reset()
    item.stash[_COMPILED_BEFORE] = compiled_codes()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Discard the code that earlier tests compiled when the test opens its first ``compile_guard``."""
    with hearing_guards(lambda: first_guard(item)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """After a test, record the torch settings that the test left changed, and discard compiled code if the test used
    the plugin or ``compile_guard``.
    """
    try:
        return (yield)
    finally:
        if "torch" in sys.modules and (starts_fresh(item) or _GUARDED in item.stash):
            reset()
        note_left_by(item.nodeid)


def starts_fresh(item: pytest.Item) -> bool:
    """Return whether compiled code is discarded before a test. Compiled code is discarded if the test uses the plugin,
    or if the test's module imports ``compile_guard`` or this package.
    """
    guard = sys.modules.get(f"{PACKAGE}.check.compile_guard")
    known = [one for one in (sys.modules[PACKAGE], guard, getattr(guard, "compile_guard", None)) if one is not None]
    values = vars(getattr(item, "module", None) or object).values()
    return usage.uses_plugin(item) or any(value is one for value in values for one in known)


def first_guard(item: pytest.Item) -> None:
    """At a test's first ``compile_guard``, discard the code that earlier tests compiled. Otherwise, torch could reuse
    this code without compiling anything that ``compile_guard`` can observe.
    """
    if _GUARDED in item.stash:
        return
    item.stash[_GUARDED] = True
    if starts_fresh(item):
        return
    before = item.stash[_COMPILED_BEFORE]
    earlier = set(map(id, before))  # equal code objects need not be the same
    if all(id(code) in earlier for code in compiled_codes()):
        reset()
    else:
        drop(before)


def reset() -> None:
    """Discard all compiled code."""
    from .._torch.reset import reset_dynamo

    with calm():
        reset_dynamo()
