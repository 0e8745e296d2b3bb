"""compile_guard around code that compiles inside itself."""

from __future__ import annotations

import dataclasses
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, check_compile, compile_guard  # noqa: E402


def breaking(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def pipeline(*sizes, function=torch.sin):
    compiled = torch.compile(lambda x: function(x) + 1, backend="eager")
    for size in sizes:
        compiled(torch.ones(size))


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_region_within_its_budget_passes_and_tells_what_it_saw():
    with compile_guard(max_recompiles=1) as seen:
        pipeline(4, 5)
    assert (len(seen.graphs), seen.ops, len(seen.recompiles)) == (2, 4, 1)
    assert seen.recompiles[0].guard == "tensor 'x' size mismatch at index 0. expected 4, actual 5"


def test_observation_fills_while_the_body_runs():
    with compile_guard(max_recompiles=1) as seen:
        assert not seen.graphs
        pipeline(4)
        assert len(seen.graphs) == 1


def test_graph_break_is_found_and_placed():
    with pytest.raises(CompileCheckFailed, match="graph break 1 of 1, 0 allowed") as failure:
        with compile_guard():
            torch.compile(breaking, backend="eager")(torch.ones(2))
    (finding,) = failure.value.findings
    assert (finding.location.function, finding.location.source) == ("breaking", "torch._dynamo.graph_break()")
    assert failure.value.report.graph_breaks[0].location == finding.location


def test_recompiles_over_the_budget_are_found():
    with pytest.raises(CompileCheckFailed, match="2 recompiles, 1 allowed"):
        with compile_guard(max_recompiles=1):
            pipeline(4, 5, 1)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_that_call_a_function_before_it_is_compiled_are_named_as_the_cause(threads):
    compiled, together = torch.compile(torch.nn.ReLU(), backend="eager"), threading.Barrier(threads)

    def work(_):
        together.wait()
        compiled(torch.ones(4))

    with pytest.raises(CompileCheckFailed) as failed, compile_guard() as seen, ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    (found,) = failed.value.report.findings
    if seen.recompiles:
        assert [one.guards[0].cause for one in seen.recompiles] == ["concurrent-calls"] * (threads - 1)
        assert "call the function once before the threads start" in found.hint and "other:" not in found.hint
    else:  # torch 2.6 and 2.11 report no reason
        assert found.kind == "not-observable" and "call it in one thread first" in found.evidence


def test_function_that_another_thread_failed_to_compile_was_not_called_at_the_same_time():
    def fails_once(graph, inputs):
        fails.append(1)
        if len(fails) == 1:
            raise ValueError("planted")
        return graph.forward

    fails: list[int] = []
    compiled = torch.compile(torch.nn.ReLU(), backend=fails_once)
    with pytest.raises(CompileCheckFailed), compile_guard() as seen, ThreadPoolExecutor(1) as pool:
        with pytest.raises(Exception, match="planted"):
            compiled(torch.ones(4))
        pool.submit(compiled, torch.ones(4)).result()
    assert "concurrent-calls" not in [guard.cause for one in seen.recompiles for guard in one.guards]


def test_threads_that_call_a_function_after_it_was_compiled_compile_nothing():
    compiled = torch.compile(torch.nn.ReLU(), backend="eager")
    with compile_guard() as seen, ThreadPoolExecutor(3) as pool:
        compiled(torch.ones(4))
        list(pool.map(lambda _: compiled(torch.ones(4)), range(6)))
    assert len(seen.graphs) == 1


def test_guard_that_fails_in_another_thread_keeps_its_cause():
    with pytest.raises(CompileCheckFailed), compile_guard() as seen, ThreadPoolExecutor(1) as pool:
        compiled = torch.compile(torch.nn.ReLU(), backend="eager")
        compiled(torch.ones(4))
        pool.submit(compiled, torch.ones(4, 4)).result()
    assert [one.guards[0].cause for one in seen.recompiles] == ["rank"]


@pytest.mark.parametrize("dynamic", [None, False])
def test_sizes_are_called_constant_only_where_torch_could_make_them_dynamic(dynamic):
    compiled = torch.compile(lambda x: sum(x.unbind()), backend="eager", dynamic=dynamic)
    with pytest.raises(CompileCheckFailed) as failed, compile_guard():
        for size in (4, 5, 6):
            compiled(torch.ones(size, 2))
    (found,) = failed.value.report.findings
    assert ("requires the size to be constant" in found.hint) == (dynamic is None)


def test_eager_fallback_after_the_recompile_limit_is_found():
    def target(x, name):
        return x * len(name)

    with pytest.raises(CompileCheckFailed, match="target hit the recompile limit of 8") as failure:
        with compile_guard(max_recompiles=20):
            compiled = torch.compile(target, backend="eager")
            for size in range(1, 11):
                compiled(torch.ones(2), "n" * size)
    assert [finding.kind for finding in failure.value.findings] == ["eager-fallback"]


def test_the_limit_that_a_function_hit_is_named():
    with torch._dynamo.config.patch(accumulated_cache_size_limit=2), pytest.raises(CompileCheckFailed) as failed:
        with compile_guard(max_recompiles=4):
            pipeline(4, 1, 0)
    (found,) = failed.value.report.findings
    reported = "currently set to" in inspect.getsource(torch._dynamo.convert_frame)  # not by torch 2.6
    assert f"hit the recompile limit of {2 if reported else 8}:" in found.message


def test_accepted_break_does_not_count():
    with compile_guard(max_graph_breaks=1) as seen:
        torch.compile(breaking, backend="eager")(torch.ones(2))
    torch._dynamo.reset()
    with compile_guard(accepted_breaks=[seen.graph_breaks[0].fingerprint]):
        torch.compile(breaking, backend="eager")(torch.ones(2))


def test_region_in_which_nothing_compiles_is_a_finding():
    with pytest.raises(CompileCheckFailed, match=r"decode failed .* 1 finding"):
        with compile_guard(name="decode"):
            torch.ones(2).sin()


def test_exception_of_the_body_passes_through():
    with pytest.raises(KeyError, match="of the body"):
        with compile_guard():
            raise KeyError("of the body")


def test_compilation_in_a_thread_of_the_body_is_seen():
    with compile_guard() as seen:
        thread = threading.Thread(target=pipeline, args=(4,))
        thread.start()
        thread.join()
    assert len(seen.graphs) == 1


def test_guards_nest():
    with compile_guard(max_recompiles=1) as outer:
        pipeline(4)
        with compile_guard(max_recompiles=1) as inner:
            pipeline(4, function=torch.exp)
    assert (len(outer.graphs), len(inner.graphs)) == (2, 1)


def test_budget_by_version():
    with compile_guard(max_recompiles={">=2": 1}):
        pipeline(4, 5)


def test_check_inside_a_guard_is_seen_by_it():
    with compile_guard() as seen:
        check_compile(lambda x: x.tan(), torch.ones(2), backend="eager")
    assert len(seen.graphs) == 1


def failure_of(body, **budget):
    with pytest.raises(CompileCheckFailed) as failure:
        with compile_guard(**budget):
            body()
    (finding,) = failure.value.findings
    return finding


def test_code_that_was_compiled_before_the_block_is_said_to_be():
    compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
    compiled(torch.ones(4))
    finding = failure_of(lambda: [compiled(torch.ones(4)), compiled(torch.ones(4))])
    assert finding.kind == "nothing-compiled" and finding.message.endswith("everything was compiled before this block")
    assert "were called 2 times" in finding.evidence and "test_compile_guard.py" in finding.evidence
    assert "torch.compiler.reset()" in finding.hint


def test_module_that_was_compiled_before_the_block_is_said_to_be():
    model = torch.compile(torch.nn.Linear(4, 4), backend="eager")
    model(torch.ones(2, 4))
    assert failure_of(lambda: model(torch.ones(2, 4))).message.endswith("everything was compiled before this block")


def test_block_that_calls_nothing_compiled_is_said_to():
    torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.ones(4))
    finding = failure_of(lambda: torch.compile(breaking, backend="eager"))
    assert finding.evidence.startswith("no compiled function was called in this block")


def test_compiled_code_without_ops_is_not_said_to_have_been_compiled_before():
    torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.ones(4))
    finding = failure_of(lambda: torch.compile(lambda x: x, backend="eager")(torch.ones(4)))
    assert "before" not in finding.message and "runs no tensor ops" in finding.evidence


def test_calls_that_cannot_be_seen_are_not_counted_as_none(monkeypatch):
    compiled = torch.compile(lambda x: x.sin() + 1, backend="eager")
    with compile_guard() as seen:
        compiled(torch.ones(4))
    assert seen.compiled_calls == 1
    before = torch._dynamo.eval_frame._callback_from_stance
    with monkeypatch.context() as patch:
        patch.delattr(torch._dynamo.eval_frame, "_callback_from_stance")
        with pytest.raises(NameError):  # of torch, which needs it
            with compile_guard() as seen:
                compiled(torch.ones(4))
    assert seen.compiled_calls is None
    assert torch._dynamo.eval_frame._callback_from_stance is before


def test_graph_from_the_compile_cache_counts_as_compiled():
    def target(x):
        return x.sin() * 3

    for _ in range(2):
        torch._dynamo.reset()
        with torch._inductor.config.patch(fx_graph_cache=True), compile_guard() as seen:
            torch.compile(target)(torch.ones(4))
    assert seen.cache.fx_hits == 1 and len(seen.graphs) == 1


def test_two_functions_on_one_line_are_no_recompile():
    sine, cosine = torch.compile(lambda x: x.sin(), backend="eager"), torch.compile(lambda x: x.cos(), backend="eager")
    with compile_guard():
        sine(torch.ones(2))
        cosine(torch.ones(2))


def test_function_that_is_defined_again_is_a_recompile():
    with pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"):
        with compile_guard():
            for _ in range(2):
                namespace = {}
                exec(compile("def defined(x):\n    return x.sin()\n", __file__, "exec"), namespace)
                torch.compile(namespace["defined"], backend="eager")(torch.ones(2))


@dataclasses.dataclass
class First:
    value: torch.Tensor


@dataclasses.dataclass
class Second:
    value: torch.Tensor


def builds_two(x):
    for _ in range(2):
        torch._dynamo.graph_break()
        first = First(x)
        second = Second(first.value.sin())
    return second.value


def test_dataclasses_with_the_same_fields_are_no_recompile():
    with compile_guard(max_graph_breaks=5) as seen:
        torch.compile(builds_two, backend="eager")(torch.ones(2))
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert not seen.recompiles


def test_reset_inside_the_block_is_no_recompile():
    def first(x):
        return x.sin()

    def second(x):
        return x.cos()

    with compile_guard():
        torch.compile(first, backend="eager")(torch.ones(2))
        torch._dynamo.reset()
        torch.compile(second, backend="eager")(torch.ones(2))
        torch.compile(first, backend="eager")(torch.ones(2))
