"""Observing calls: with sys.monitoring, or, before Python 3.12, with a trace function that sees every call."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile.existing.call_observer import CallObserver  # noqa: E402

traces = pytest.mark.skipif(hasattr(sys, "monitoring"), reason="Python 3.12 and newer report only the selected calls")


def other(x):
    return x + 1


def target(x):
    return x * 2


def inner(x):
    return target(x)


HEARD: list[str] = []
AUDITED: list[Counter[str]] = []


def noticing(modules):
    HEARD.clear()
    return CallObserver(
        {id(target.__code__)}, modules, lambda name: False, lambda frame: HEARD.append(frame.f_code.co_name)
    )


@traces
def test_calls_outside_the_package_are_not_audited():
    """A check installs an audit hook, which then runs at every audited event: half of the time of a slow test."""
    sys.addaudithook(lambda event, args: AUDITED[-1].update([event]) if AUDITED else None)
    observer = noticing({"elsewhere"})
    with observer.listening(list):
        pass  # measures how long an event takes
    with observer.listening(list):
        AUDITED.append(Counter())
        for number in range(100):
            other(number)
        seen = AUDITED.pop()
    assert not seen
    assert observer.seconds > 0


@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=traces)])
def test_call_to_the_package_is_heard(traced):
    observer = noticing({__name__})
    before = sys.gettrace()
    if traced:  # as under coverage: a profile function is used
        sys.settrace(lambda frame, event, argument: None)
    try:
        with observer.listening(lambda: [target.__code__]):
            other(1)
            inner(1)
    finally:
        sys.settrace(before)
    assert HEARD == ["target"]


def test_call_from_inside_the_package_is_not_heard():
    observer = CallObserver(
        {id(target.__code__)}, {__name__}, lambda name: name == __name__, lambda frame: HEARD.append("heard")
    )
    HEARD.clear()
    with observer.listening(lambda: [target.__code__]):
        inner(1)
    assert not HEARD


@pytest.mark.parametrize("name", [None, ["a list"]])
def test_caller_whose_module_has_no_proper_name(name):
    caller = {"__name__": name, "target": target}
    exec("def calls():\n    return target(1)", caller)
    observer = noticing({__name__})
    with observer.listening(lambda: [target.__code__]):
        caller["calls"]()
    assert HEARD == ["target"]
