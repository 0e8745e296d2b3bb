"""Calls that run eagerly inside torch.compile, and that torch does not report."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, compile_guard  # noqa: E402


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
    with pytest.raises(CompileCheckFailed, match="function hit the recompile limit of 8 earlier") as failure:
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
    with pytest.raises(CompileCheckFailed, match="forward hit the recompile limit of 8 earlier") as failure:
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
        (torch.nn.Linear(3, 3), (2,), "forward of a torch module"),
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


def test_profile_function_of_the_user_is_back_after_the_block(warm):
    import sys

    def profile(frame, event, argument):
        pass

    sys.setprofile(profile)
    try:
        with compile_guard(steady=True):
            warm(torch.ones(2))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
