"""Counting Python's calls: exact, of compiled code too, and without a trace afterwards."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_torch_compile.speed.measuring.bench import measure_compile
from pytest_torch_compile.speed.measuring.python_calls import python_calls


def leaf() -> None:
    pass


def calling(times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            leaf()

    return run


def test_functions_and_builtins_count_and_the_run_itself_does_not() -> None:
    assert python_calls(calling(0)) == 0
    assert python_calls(calling(5)) == 5
    assert python_calls(lambda: len("ab")) == 1


def test_count_is_the_same_every_time() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    x = torch.ones(2, 4)
    assert len({python_calls(lambda: model(x)) for _ in range(5)}) == 1


def test_compiled_code_is_counted_as_it_runs_and_not_traced_anew() -> None:
    graphs, calls = [], []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return lambda *args: calls.append(1) or graph.forward(*args)  # type: ignore[func-returns-value]

    compiled = torch.compile(lambda x: x.sin().cos(), backend=backend)
    x = torch.ones(3)
    compiled(x)
    calls.clear()
    assert python_calls(lambda: compiled(x))
    assert len(graphs) == 1 and calls


def test_nothing_is_counted_where_another_profiler_is_at_work() -> None:
    seen: list[str] = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        assert python_calls(leaf) is None
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)


def test_nothing_stays_installed_after_an_error() -> None:
    def fails() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        python_calls(fails)
    assert sys.getprofile() is None and threading.getprofile() is None


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="before Python 3.12, only the calls of one thread can be counted"
)
def test_other_threads_count() -> None:
    wanted, done = threading.Semaphore(0), threading.Semaphore(0)

    def works() -> None:
        while wanted.acquire():
            calling(100)()
            done.release()

    def run() -> None:
        wanted.release()
        done.acquire()

    threading.Thread(target=works, daemon=True).start()
    run()
    assert (python_calls(run) or 0) > 100


def test_sample_holds_the_counts_of_both_legs() -> None:
    def with_calls(times: int) -> Callable[[Any], Any]:
        def compile(target: Any) -> Any:
            def run(x: torch.Tensor) -> torch.Tensor:
                calling(times)()
                return target(x)

            return run

        return compile

    def counts(times: int) -> tuple[int, int]:
        found = measure_compile(lambda x: x + 1, torch.ones(2), compile=with_calls(times), seconds=0.02)
        assert found.python_calls and found.exact.python_calls == found.python_calls[1]
        return found.python_calls

    (eager, few), (again, many) = counts(10), counts(60)
    assert eager == again and many - few == 50
