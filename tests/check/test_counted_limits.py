"""Budgets in exact units: graphs, guards, kernels, CUDA graphs, memory and waits for the GPU."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import (  # noqa: E402
    Budget,
    CompileCheckFailed,
    CompileSuite,
    CompileUsageError,
    call,
    check_compile,
    compile_guard,
)
from pytest_torch_compile._torch.syncs import hearing_warnings  # noqa: E402
from pytest_torch_compile.check import counted_limits  # noqa: E402
from pytest_torch_compile.check.counted_limits import Figure, Figures, limit_findings  # noqa: E402
from pytest_torch_compile.observation import CudagraphRuns, Observation  # noqa: E402

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def fused(x):
    return x.sin().cos() + 1


def apart(x):
    return x.sin(), torch.softmax(x.reshape(-1, 2), -1), x.sum()


def broken(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def sized(size):
    return torch.ones(size, 4)


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def findings_of(check, *args, **options):
    with pytest.raises(CompileCheckFailed) as failure:
        check(*args, **options)
    return failure.value.findings


EAGER = {"backend": "eager"}
OVER = {
    "a graph too many, in a loop over sizes": (
        fused, [sized(4), sized(5)], Budget(max_graphs=1, max_recompiles=1), EAGER, "structure", "2 graphs, 1 allowed",
    ),
    "two graphs around a break": (
        broken, [sized(4)], Budget(max_graphs=1, max_graph_breaks=1), EAGER, "structure", "2 graphs, 1 allowed",
    ),
    "guards": (fused, [sized(4)], Budget(max_guards=1), EAGER, "structure", "guards, 1 allowed"),
    "kernels that are not fused": (apart, [sized(4)], Budget(max_kernels=1), {}, "structure", "in one call, 1 allowed"),
    "kernels of a backward": (
        fused, [sized(4).requires_grad_()], Budget(max_kernels=1), {"train": True}, "structure", "2 kernels in one call",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OVER)
def test_more_than_the_limit_is_found(case):
    target, calls, budget, options, kind, text = OVER[case]
    (finding,) = findings_of(check_compile, target, calls=calls, budget=budget, **options)
    assert finding.kind == kind and text in finding.message
    assert finding.measured > finding.limit and finding.evidence


WITHIN = {
    "one graph": (fused, [sized(4), sized(4)], Budget(max_graphs=1), EAGER),
    "a graph for each size": (fused, [sized(4), sized(5)], Budget(max_graphs=2, max_recompiles=1), EAGER),
    "many guards allowed": (fused, [sized(4)], Budget(max_guards=100), EAGER),
    "one graph of Inductor's": (fused, [sized(4)], Budget(max_graphs=1), {}),
    "one fused kernel": (fused, [sized(4)], Budget(max_kernels=1), {}),
    "one fused kernel in each call": (
        fused, [sized(4), sized(5), sized(6)], Budget(max_kernels=1, max_recompiles=1), {},
    ),
    "no CUDA graphs on a CPU": (fused, [sized(4)], Budget(max_cudagraphs=0), EAGER),
    "by version": (fused, [sized(4), sized(5)], Budget(max_graphs={">=2": 2}, max_recompiles={">=2": 1}), EAGER),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHIN)
def test_what_is_within_the_limit_passes(case):
    target, calls, budget, options = WITHIN[case]
    assert check_compile(target, calls=calls, budget=budget, **options).ok


@pytest.mark.skipif(torch.cuda.is_available(), reason="these limits can be measured on a CUDA device")
@pytest.mark.parametrize("budget", [Budget(max_memory=1), Budget(max_memory_ratio=1.0), Budget(max_syncs=0)])
def test_what_a_cpu_does_not_show_never_passes(budget):
    with pytest.raises(CompileUsageError, match="cannot be measured on a CPU"):
        check_compile(fused, sized(4), budget=budget, **EAGER)
    with pytest.raises(CompileUsageError, match=r"cannot be measured on a CPU|only with check_compile"):
        with compile_guard(budget=budget):
            pass


@pytest.mark.parametrize("name", ["max_memory", "max_memory_ratio", "max_syncs"])
def test_limit_on_calls_that_all_raise_is_refused(name):
    with pytest.raises(CompileUsageError, match=f"{name} is measured in calls that return"):
        check_compile(torch.sin, calls=[call("x").raises(TypeError)], budget=Budget(**{name: 2}))


def test_kernels_of_a_backend_that_generates_none_are_refused():
    with pytest.raises(CompileUsageError, match="the backend is aot_eager"):
        check_compile(fused, sized(4), budget=Budget(max_kernels=1), backend="aot_eager")


def test_kernels_of_a_wrapper_that_generates_none_are_not_observable():
    wrapper = lambda target: torch.compile(target, backend="aot_eager")  # noqa: E731
    (finding,) = findings_of(check_compile, fused, sized(4), budget=Budget(max_kernels=1), compile=wrapper)
    assert finding.kind == "not-observable" and "no graph went through Inductor" in finding.message


def test_kernels_out_of_the_compile_cache_count():
    torch._inductor.utils.clear_inductor_caches()
    for _ in range(2):
        torch._dynamo.reset()
        x = sized(4).requires_grad_()
        (finding,) = findings_of(check_compile, apart, x, budget=Budget(max_kernels=0), train=True)
        first = locals().get("first", finding.measured)
        assert finding.measured == first


def test_limits_beside_the_budget_take_the_place_of_its_own():
    calls = [sized(4), sized(5)]
    report = check_compile(fused, calls=calls, budget=Budget(max_graphs=2), max_recompiles=1, **EAGER)
    assert report.budget == {"max_graph_breaks": 0, "max_recompiles": 1, "max_graphs": 2}
    assert not check_compile(fused, calls=calls, budget=Budget(max_recompiles=1), **EAGER).findings


@pytest.mark.parametrize("budget", [{"max_graphs": 1}, 3, "max_graphs"])
def test_budget_that_is_none_is_refused(budget):
    with pytest.raises(CompileUsageError, match=r"for example budget=Budget\("):
        check_compile(fused, sized(4), budget=budget, **EAGER)


@pytest.mark.parametrize(
    "name", ["max_graphs", "max_guards", "max_kernels", "max_cudagraphs", "max_memory", "max_syncs"]
)
@pytest.mark.parametrize("limit", [-1, True, 1.5, {"2": 1}])
def test_wrong_limit_is_refused(name, limit):
    with pytest.raises(CompileUsageError, match=name):
        Budget(**{name: limit})


@pytest.mark.parametrize("ratio", [0, -1, True, "1.1"])
def test_wrong_ratio_is_refused(ratio):
    with pytest.raises(CompileUsageError, match="max_memory_ratio"):
        Budget(max_memory_ratio=ratio)


def test_guard_holds_its_body_to_the_budget():
    with pytest.raises(CompileCheckFailed, match="2 graphs, 1 allowed"):
        with compile_guard(budget=Budget(max_graphs=1, max_recompiles=1)):
            run = torch.compile(fused, **EAGER)
            run(sized(4))
            run(sized(5))
    with compile_guard(budget=Budget(max_graphs=1, max_guards=100)):
        torch.compile(apart, **EAGER)(sized(4))


def test_guard_counts_generated_kernels():
    for limit in (1, 0):
        torch._dynamo.reset()
        try:
            with compile_guard(budget=Budget(max_kernels=limit)):
                torch.compile(fused)(sized(4))
            assert limit == 1
        except CompileCheckFailed as failure:
            (finding,) = failure.findings
            assert limit == 0 and finding.message == "1 kernel, 0 allowed"


@pytest.mark.torch_compile(budget=Budget(max_graphs=1), backend="eager", max_recompiles=1)
def test_marker_gives_a_budget(compile_check):
    compile_check(fused, sized(4))
    (finding,) = findings_of(compile_check, fused, calls=[sized(4), sized(5)])
    assert finding.message == "2 graphs, 1 allowed"


class TestSuiteWithABudget(CompileSuite):
    shapes = (2, 3, 5)
    trains = False
    options = {"budget": Budget(max_graphs=2), "backend": "eager"}

    def make_model(self):
        return torch.nn.Linear(4, 4)

    def make_inputs(self, shape):
        return sized(shape)


# What only a GPU shows, with figures as it gives them.
SHOWN = {
    "recorded CUDA graphs": ("max_cudagraphs", 1, None, "structure", "3 recorded CUDA graphs, 1 allowed"),
    "memory": ("max_memory", 1000, Figure(2000, ["call 1: 2,000 bytes"]), "memory", "2000 bytes in one call, 1,000"),
    "ratio": ("max_memory_ratio", 1.1, Figure(1.5, ["call 1: ..."]), "memory", "1.5 times eager's memory in one call"),
    "waits": ("max_syncs", 0, Figure(2, ["a.py:3: x.item()"]), "host-sync", "2 GPU synchronizations, 0 allowed"),
    "launched kernels": ("max_kernels", 3, Figure(4, ["call 1: 4 kernels"]), "structure", "4 kernels in one call"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_what_a_gpu_showed_is_judged(case):
    name, limit, figure, kind, text = SHOWN[case]
    seen = Observation(cudagraph_runs=[CudagraphRuns(1, 0, 1), CudagraphRuns(2, 0, 2)])
    figures = Figures(measured={name: figure} if figure else {})
    (finding,) = limit_findings(Budget(**{name: limit}), seen, figures)
    assert finding.kind == kind and text in finding.message
    assert limit_findings(Budget(**{name: 5000}), seen, figures) == []


def test_guards_that_torch_did_not_count_are_not_observable():
    report = check_compile(fused, sized(4), **EAGER)
    seen = report.observation
    seen.graphs = [type(graph)(graph.frame, graph.ops) for graph in seen.graphs]
    (finding,) = limit_findings(Budget(max_guards=1000), seen, Figures())
    assert finding.kind == "not-observable"


def waits():
    warnings.warn(
        "called a synchronizing CUDA operation (Triggered internally at CUDAFunctions.cpp:152.)", stacklevel=1
    )


def test_wait_that_torch_warns_of_is_heard_with_its_line():
    lines = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with hearing_warnings(lines.append):
            waits()
            warnings.warn("another", stacklevel=1)
            waits()
    assert [str(one.message) for one in shown] == ["another"]
    assert [(line.file, line.function) for line in lines] == [(__file__, "waits")] * 2
    assert lines[0].source.startswith("warnings.warn(")


def test_no_limit_costs_nothing(monkeypatch):
    monkeypatch.setattr(counted_limits, "counting_generated", None)
    monkeypatch.setattr(counted_limits, "gpu_counts", None)
    assert check_compile(fused, sized(4)).ok


def synced(x):
    return x * x.sum().item()


@pytest.mark.gpu
@on_gpu
def test_waits_for_the_gpu_are_found_at_their_line():
    x = torch.randn(64, 64, device="cuda")
    found = findings_of(check_compile, synced, x, max_graph_breaks=1, budget=Budget(max_syncs=0))
    (finding,) = [finding for finding in found if finding.kind == "host-sync"]
    assert finding.location.file == __file__ and "in one call" not in finding.message
    assert check_compile(fused, x, budget=Budget(max_syncs=0)).ok
    assert check_compile(synced, x, max_graph_breaks=1, budget=Budget(max_syncs=1)).ok


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("wait", ["item", "synchronize", "event", "copy"])
def test_waits_in_a_guarded_block_are_found_at_their_line(wait):
    x = torch.randn(64, 64, device="cuda")
    ways = {
        "item": lambda: x.sum().item(),
        "synchronize": lambda: torch.cuda.synchronize(),
        "event": lambda: torch.cuda.current_stream().record_event().synchronize(),
        "copy": lambda: x.cpu(),
    }
    run = torch.compile(fused)
    with compile_guard(budget=Budget(max_syncs=1000)):
        run(x)
    with pytest.raises(CompileCheckFailed, match="0 allowed") as failure:
        with compile_guard(steady=True, budget=Budget(max_syncs=0)):
            run(x)
            ways[wait]()
    (finding,) = failure.value.findings
    assert finding.kind == "host-sync" and finding.location.file == __file__
    with compile_guard(steady=True, budget=Budget(max_syncs=0)):
        run(x)


@pytest.mark.gpu
@on_gpu
def test_kernels_and_memory_of_a_call_on_a_gpu():
    x = torch.randn(1024, 1024, device="cuda")
    size = x.numel() * 4
    assert check_compile(fused, x, budget=Budget(max_kernels=1, max_memory=3 * size, max_memory_ratio=1.0)).ok
    found = findings_of(check_compile, apart, x, budget=Budget(max_kernels=1, max_memory=size))
    assert {finding.kind for finding in found} == {"structure", "memory"}


@pytest.mark.gpu
@on_gpu
def test_peak_memory_of_a_guarded_block_on_a_gpu():
    x = torch.randn(1024, 1024, device="cuda")
    size = x.numel() * 4
    run = torch.compile(fused)
    run(x)
    with compile_guard(steady=True, budget=Budget(max_memory=2 * size)):
        run(x)
    with pytest.raises(CompileCheckFailed, match="bytes, "):
        with compile_guard(steady=True, budget=Budget(max_memory=2 * size)):
            keep = [run(x) for _ in range(4)]
            del keep


@pytest.mark.gpu
@on_gpu
def test_recorded_cuda_graphs_and_late_recordings_on_a_gpu():
    def make():
        return torch.compile(fused, mode="reduce-overhead", dynamic=False)

    x, y = torch.randn(64, 64, device="cuda"), torch.randn(32, 64, device="cuda")
    run = make()
    for _ in range(3):
        run(x)
    with compile_guard(steady=True):
        run(x)
    torch._dynamo.reset()
    run = make()
    run(x)  # only the warm-up run: the next one records
    with pytest.raises(CompileCheckFailed, match=r"CUDA graph.* after the warm-up"):
        with compile_guard(steady=True):
            run(x)
    torch._dynamo.reset()
    run = make()
    with pytest.raises(CompileCheckFailed, match="recorded CUDA graphs, 1 allowed"):
        with compile_guard(budget=Budget(max_cudagraphs=1, max_recompiles=1)):
            for _ in range(3):
                run(x)
                run(y)
