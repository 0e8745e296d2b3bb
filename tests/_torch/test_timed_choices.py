"""Inductor times whether to pad a matrix product in a turn of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pytest_torch_compile._torch.timed_choices import timing_in

pad_mm: Any = pytest.importorskip("torch._inductor.fx_passes.pad_mm")


def test_each_alternative_is_timed_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    @contextmanager
    def turn() -> Iterator[None]:
        events.append("turn")
        yield
        events.append("over")

    monkeypatch.setattr(pad_mm, "get_do_bench", lambda: lambda function: events.append(function()) or 0.5)
    before = pad_mm.get_do_bench
    with timing_in(turn):
        measure = pad_mm.get_do_bench()
        assert [measure(lambda: "as it is"), measure(lambda: "padded")] == [0.5, 0.5]
    assert events == ["turn", "as it is", "over", "turn", "padded", "over"]
    assert pad_mm.get_do_bench is before


def test_inductor_asks_for_the_function_whenever_it_times() -> None:
    """If torch keeps the function in a variable, the turns have no effect."""
    import inspect

    users = [
        function
        for _, function in inspect.getmembers(pad_mm, inspect.isfunction)
        if function.__name__ != "get_do_bench"
    ]
    assert any("get_do_bench()" in inspect.getsource(function) for function in users)


def test_without_the_name_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pad_mm, "get_do_bench")
    with timing_in(lambda: pytest.fail("nothing is timed")):
        assert not hasattr(pad_mm, "get_do_bench")
