"""Calls that run eagerly inside torch.compile, and that torch does not report."""

from __future__ import annotations

import cProfile
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, compile_guard  # noqa: E402
from pytest_torch_compile._torch import eager_runs  # noqa: E402


def inner(x):
    return x.sin()


def function(x):
    return inner(x) + 1


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def warm():
    """A compiled function, called with more sizes than the recompile limit allows."""
    compiled = torch.compile(function, backend="eager", dynamic=False)
    for size in range(2, 12):
        compiled(torch.ones(size))
    return compiled


def test_call_after_an_earlier_limit_is_a_fallback(warm):
    with pytest.raises(CompileCheckFailed, match="function hit the recompile limit earlier") as failure:
        with compile_guard(steady=True):
            warm(torch.ones(40))
    (finding,) = failure.value.findings
    assert (finding.kind, finding.location.function) == ("eager-fallback", "function")
    (fallback,) = failure.value.report.fallbacks
    assert fallback.why == "earlier-limit"


def test_method_of_a_module_at_the_limit_is_found_in_a_block_that_compiles_other_code():
    layer = Layer()
    compiled = torch.compile(layer, backend="eager", dynamic=False)
    for size in range(2, 12):
        compiled(torch.ones(size, 3))
    with pytest.raises(CompileCheckFailed, match="forward hit the recompile limit earlier") as failure:
        with compile_guard() as seen:
            torch.compile(function, backend="eager")(torch.ones(2))
            compiled(torch.ones(40, 3))
    # The observer's own functions are not compiled.
    assert [graph.frame for graph in seen.graphs] == ["function"]
    assert seen.frames == 1
    assert [finding.kind for finding in failure.value.findings] == ["eager-fallback"]


def test_size_that_has_a_graph_passes_after_the_limit(warm):
    with compile_guard(steady=True):
        warm(torch.ones(2))


def test_function_with_all_its_graphs_that_has_not_exceeded_the_limit_passes():
    compiled = torch.compile(function, backend="eager", dynamic=False)
    for size in range(2, 10):
        compiled(torch.ones(size))
    with compile_guard(steady=True):
        compiled(torch.ones(2))


@pytest.mark.parametrize("wrap", [lambda target: target, torch.compiler.disable], ids=["direct", "disabled"])
def test_eager_call_of_a_function_at_the_limit_passes(warm, wrap):
    def eager(x):
        return wrap(function)(x)

    with compile_guard(steady=True):
        warm(torch.ones(2))
        eager(torch.ones(40))


def test_eager_call_from_disabled_code_inside_compiled_code_passes(warm):
    disabled = torch.compiler.disable(lambda x: function(x))
    outer = torch.compile(lambda x: disabled(x.cos()) + 1, backend="eager")
    with compile_guard(max_graph_breaks=1):
        outer(torch.ones(40))


def test_fallback_inside_the_block_is_reported_once():
    compiled = torch.compile(function, backend="eager", dynamic=False)
    for size in range(2, 10):
        compiled(torch.ones(size))
    with pytest.raises(CompileCheckFailed) as failure:
        with compile_guard(max_recompiles=1):
            compiled(torch.ones(40))
            compiled(torch.ones(41))
    (finding,) = failure.value.findings
    assert "from now on, calls that match no graph run eagerly" in finding.message


@pytest.mark.parametrize(
    ("target", "rows", "name"),
    [
        (function, (), "function"),
        (Layer(), (2,), "forward"),
        (torch.nn.Linear(3, 3), (2,), "the module or function"),
    ],
    ids=["function", "module", "torch module"],
)
def test_call_under_a_dispatch_mode_is_a_fallback(target, rows, name):
    compiled = torch.compile(target, backend="eager")
    with pytest.raises(CompileCheckFailed, match=f"{name} ran eagerly, because it was called under FlopCounterMode"):
        with compile_guard():
            compiled(torch.ones(*rows, 3))
            with FlopCounterMode(display=False):
                compiled(torch.ones(*rows, 3))


def test_compiled_calls_outside_of_a_dispatch_mode_pass():
    compiled = torch.compile(function, backend="eager")
    with compile_guard():
        compiled(torch.ones(3))
        with FlopCounterMode(display=False):
            function(torch.ones(3))
        compiled(torch.ones(3))


@torch.no_grad()
def decorated(x):
    return x.sin()


def calls_decorated(rows):
    for row in rows:
        torch._dynamo.graph_break()
        result = decorated(row)
    return result


def test_decorated_function_that_is_called_after_a_graph_break_is_found():
    compiled = torch.compile(calls_decorated, backend="eager", dynamic=False)
    for size in range(2, 12):
        compiled([torch.ones(size)])
    with pytest.raises(CompileCheckFailed) as failure:
        with compile_guard(steady=True):
            compiled([torch.ones(40)])
    assert "decorated" in [finding.subject for finding in failure.value.findings]


def test_limit_that_was_raised_after_it_was_reached_changes_nothing(warm):
    config = torch._dynamo.config
    name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    with config.patch(**{name: 64}), pytest.raises(CompileCheckFailed, match="eager-fallback"):
        with compile_guard(steady=True):
            warm(torch.ones(40))


@pytest.mark.skipif(torch.__version__ < "2.13", reason="the argument recompile_limit is new in torch 2.13")
def test_limit_of_one_function_is_applied():
    compiled = torch.compile(function, backend="eager", dynamic=False, recompile_limit=2)
    for size in range(2, 6):
        compiled(torch.ones(size))
    with pytest.raises(CompileCheckFailed, match="function hit the recompile limit earlier"):
        with compile_guard(steady=True):
            compiled(torch.ones(40))
    with compile_guard(steady=True):
        compiled(torch.ones(2))


def test_error_of_the_observer_does_not_reach_the_call_and_is_not_a_pass(warm, monkeypatch):
    monkeypatch.setattr(eager_runs, "_dispatch_mode", lambda: 1 / 0)
    with pytest.raises(CompileCheckFailed, match="observing a call raised ZeroDivisionError") as failure:
        with compile_guard(steady=True):
            assert warm(torch.ones(2)).shape == (2,)
    assert [finding.kind for finding in failure.value.findings] == ["not-observable"]


class Encoder(Layer):
    def encode(self, x):
        return x.cos()


@pytest.mark.parametrize("method", ["encode", "forward"])
def test_compiled_method_under_a_dispatch_mode_is_a_fallback(method):
    model = Encoder()
    setattr(model, method, torch.compile(getattr(model, method), backend="eager"))
    called = model if method == "forward" else model.encode
    with pytest.raises(CompileCheckFailed, match=f"{method} ran eagerly, because it was called under FlopCounterMode"):
        with compile_guard():
            called(torch.ones(2, 3))
            with FlopCounterMode(display=False):
                called(torch.ones(2, 3))


def test_call_in_another_thread_is_found_and_leaves_no_profile_function(warm):
    left = []

    def run():
        warm(torch.ones(40))
        left.append(sys.getprofile())

    with pytest.raises(CompileCheckFailed, match="hit the recompile limit earlier"):
        with compile_guard(steady=True):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
    assert left == [None]


def test_call_that_is_profiled_is_found(warm):
    with pytest.raises(CompileCheckFailed, match="hit the recompile limit earlier"):
        with compile_guard(steady=True):
            cProfile.Profile().runcall(warm, torch.ones(40))


def test_profiler_that_cannot_be_paused_makes_the_call_not_observable(warm):
    with torch.profiler.profile(with_stack=True), pytest.raises(CompileCheckFailed, match="not-observable") as failure:
        with compile_guard(steady=True):
            warm(torch.ones(2))
    assert "TraceContext cannot be paused" in failure.value.findings[0].evidence


def test_other_settings_than_the_limit_are_the_cause_under_a_stance(warm):
    with pytest.raises(CompileCheckFailed) as failure:
        with compile_guard(steady=True), torch.compiler.set_stance("force_eager"):
            warm(torch.ones(2))
    assert [finding.kind for finding in failure.value.findings] == ["not-observable"]


def test_blocks_in_two_threads_may_overlap():
    from torch._dynamo import eval_frame

    before = eval_frame._callback_from_stance
    entered, left = threading.Event(), threading.Event()
    compiled = torch.compile(function, backend="eager")

    def outlives():
        with compile_guard() as seen:
            entered.set()
            left.wait(30)
            compiled(torch.ones(3))
        counted.append((seen.compiled_calls, [graph.frame for graph in seen.graphs]))

    counted = []
    thread = threading.Thread(target=outlives)
    with compile_guard():
        torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(3))
        thread.start()
        entered.wait(30)
    left.set()
    thread.join()
    assert counted == [(1, ["function"])]
    assert eval_frame._callback_from_stance is before


def test_profile_function_of_the_user_is_back_after_the_block(warm):
    def profile(frame, event, argument):
        pass

    sys.setprofile(profile)
    try:
        with compile_guard(steady=True):
            warm(torch.ones(2))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
