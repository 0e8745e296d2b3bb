"""Inductor times whether to pad a matrix product in a turn, and a compilation says when it uses the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch._dynamo.callback
from torch._inductor.fx_passes import pad_mm

from pytest_torch_compile._torch.compiling_on_device import reporting_use, timing_in

times_padding = pytest.mark.skipif(
    not hasattr(pad_mm, "get_do_bench"), reason="torch 2.6 keeps the function that times padding in a variable"
)
tells_what_compiles = pytest.mark.skipif(
    not hasattr(torch._dynamo.callback, "CallbackTrigger"), reason="torch 2.6 does not report when a compilation starts"
)


@times_padding
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


@times_padding
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
    monkeypatch.delattr(pad_mm, "get_do_bench", raising=False)
    with timing_in(lambda: pytest.fail("nothing is timed")):
        assert not hasattr(pad_mm, "get_do_bench")


@pytest.fixture
def use() -> Iterator[list[str]]:
    """Return the list of what is reported inside the block."""
    events: list[str] = []
    with reporting_use(lambda: events.append("stop"), lambda: events.append("again")):
        yield events
    torch.compiler.reset()


def compiled_with(function: Callable[[], object]) -> Callable[..., Any]:
    """A compiled function whose backend calls ``function`` while it compiles."""

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        function()
        return graph.forward

    return torch.compile(lambda x: x + 1, backend=backend)


@tells_what_compiles
def test_a_compilation_does_not_use_the_device_until_it_ends(use: list[str]) -> None:
    step = compiled_with(lambda: use.append("compiles"))
    step(torch.ones(3))
    assert use == ["stop", "compiles", "again"]
    step(torch.ones(3))
    assert use == ["stop", "compiles", "again"]


@tells_what_compiles
def test_the_backward_pass_is_compiled_without_the_device_too(use: list[str]) -> None:
    x = torch.ones(3, requires_grad=True)
    loss = torch.compile(lambda x: x.sin().sum(), backend="aot_eager")(x)
    assert use == ["stop", "again"]
    loss.backward()
    assert use == ["stop", "again"] * (len(use) // 2)


@tells_what_compiles
def test_timing_an_alternative_uses_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.runtime.benchmarking import benchmarker

    events: list[str] = []
    monkeypatch.setattr(benchmarker, "benchmark_gpu", lambda kernel: events.append(kernel) or 0.5)
    before = benchmarker.benchmark_gpu
    with reporting_use(lambda: events.append("stop"), lambda: events.append("again")):
        compiled_with(lambda: benchmarker.benchmark_gpu("kernel"))(torch.ones(3))
        assert events == ["stop", "again", "kernel", "stop", "again"]
        events.clear()
        assert benchmarker.benchmark_gpu("outside") == 0.5
        assert events == ["outside"]
    assert benchmarker.benchmark_gpu is before
    torch.compiler.reset()


@tells_what_compiles
def test_an_exception_while_compiling_ends_the_report(use: list[str]) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(Exception, match="ZeroDivisionError"):
        compiled_with(fail)(torch.ones(3))
    assert use[0] == "stop"
    assert use.count("stop") == use.count("again")


def test_after_a_reset_nothing_is_reported_and_the_block_still_ends() -> None:
    events: list[str] = []
    with reporting_use(lambda: events.append("stop"), lambda: events.append("again")):
        torch.compiler.reset()
        compiled_with(lambda: None)(torch.ones(3))
    assert events == []
