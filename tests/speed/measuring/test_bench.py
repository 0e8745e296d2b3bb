"""Measuring: that each leg runs what it should, as often as it should; never how fast."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_torch_compile import CompileUsageError
from pytest_torch_compile.legs.targets import device_of
from pytest_torch_compile.speed.measuring import kernels, timing
from pytest_torch_compile.speed.measuring.bench import Bench, measure_compile
from pytest_torch_compile.speed.measuring.workload import workload


class ScriptedTimer:
    """A clock that reads out a list."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)

    def block(self, run: Callable[[], object], calls: int) -> tuple[float, float]:
        run()
        return self.times.pop(0), 0.0

    def synchronize(self) -> None:
        pass


def quick(target: Any, *args: Any, **options: Any) -> Any:
    compiling = {} if "compile" in options else {"backend": "eager"}
    return measure_compile(target, *args, **compiling, seconds=0.02, **options)


def test_cpu_figures_are_shown_and_not_judged() -> None:
    found = quick(torch.nn.Linear(4, 4), torch.ones(2, 4))
    assert found.problems == ("times on CPU are shown, but neither stored nor compared with a baseline",)
    assert found.environment["device"] == "cpu"
    assert found.what == "forward" and found.mode == "default"
    assert found.wall.eager > 0 and found.wall.compiled > 0
    assert found.rounds >= 3
    assert found.device is None and found.kernels is None


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"train": True}, "forward and backward"),
        ({"train": lambda y: y.sum()}, "forward and backward"),
        ({"train": True, "optimizer": lambda p: torch.optim.SGD(p, 0.1)}, "train step"),
    ],
)
def test_what_was_measured_is_named(options: dict[str, Any], what: str) -> None:
    assert quick(torch.nn.Linear(4, 4), torch.ones(2, 4), **options).what == what


def test_target_and_inputs_of_the_caller_are_left_alone() -> None:
    model, x = torch.nn.Linear(4, 4), torch.ones(2, 4, requires_grad=True)
    before = model.weight.clone()
    quick(model, x, train=True, optimizer=lambda p: torch.optim.SGD(p, 0.1))
    assert torch.equal(model.weight, before)
    assert model.weight.grad is None and x.grad is None


def test_raw_keeps_every_round() -> None:
    found = quick(torch.nn.Linear(4, 4), torch.ones(2, 4), raw=True)
    assert len(found.raw["wall"]["eager"]) == len(found.raw["wall"]["compiled"]) == found.rounds
    assert not quick(torch.nn.Linear(4, 4), torch.ones(2, 4)).raw


def test_any_wrapper_may_compile() -> None:
    wrapped = []
    quick(lambda x: x + 1, torch.ones(2), compile=lambda target: wrapped.append(target) or target)
    assert len(wrapped) == 1


def closes_over(module: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: module(x)


class Counter(torch.nn.Module):
    """Counts its calls in a buffer and in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.number = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.number += 1
        self.calls += 1
        return x * 2


@pytest.mark.parametrize("module", [Counter(), torch.nn.BatchNorm1d(4)], ids=["counter", "batch norm"])
def test_function_that_closes_over_a_module_shares_it_with_no_leg(module: torch.nn.Module) -> None:
    """A bare deepcopy keeps functions as they are, so that both legs and the caller changed one module."""
    modules = []

    def wrapper(target: Any) -> Any:
        modules.append(target.__closure__[0].cell_contents)
        return target

    before = {name: value.clone() for name, value in module.state_dict().items()}
    bench = Bench(closes_over(module), torch.randn(8, 4), compile=wrapper)
    (compiled,) = modules
    assert compiled is not module
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    now = {name: value.clone() for name, value in compiled.state_dict().items()}
    bench.legs["eager"].run()
    assert all(torch.equal(value, now[name]) for name, value in compiled.state_dict().items())
    bench.legs["compiled"].run()
    assert any(not torch.equal(value, now[name]) for name, value in compiled.state_dict().items())


def test_optimizer_gets_the_parameters_of_a_module_that_is_closed_over() -> None:
    counts = []

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        counts.append(len(parameters))
        return torch.optim.SGD(parameters, 0.1)

    quick(closes_over(torch.nn.Linear(4, 4)), torch.ones(2, 4), train=True, optimizer=optimizer)
    assert counts == [2, 2]


def test_dimensions_are_marked_dynamic_for_the_compiled_leg_only() -> None:
    marks = []

    def wrapper(target: Any) -> Any:
        def run(x: torch.Tensor) -> torch.Tensor:
            marks.append(getattr(x, "_dynamo_dynamic_indices", None))
            return target(x)

        return run

    x = torch.ones(3, 4)
    measure_compile(lambda x: x + 1, x, compile=wrapper, dynamic_dims={"x": 0}, seconds=0.01)
    assert marks[0] == {0}
    assert not hasattr(x, "_dynamo_dynamic_indices")


@pytest.mark.parametrize("option", [{"mode": "default"}, {"options": {}}, {"dynamic": True}, {"fullgraph": True}])
def test_option_that_an_own_compile_function_would_drop_is_refused(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(CompileUsageError, match=f"^{name} is an option of torch.compile, but compile= replaces"):
        measure_compile(lambda x: x + 1, torch.ones(2), compile=lambda target: target, **option)


def test_mode_that_torch_does_not_know_is_refused() -> None:
    with pytest.raises(CompileUsageError, match="fastest"):
        measure_compile(lambda x: x + 1, torch.ones(2), mode="fastest")


def test_compiling_counts_as_cold_start() -> None:
    compiled = []

    def slow_to_start(target: Any) -> Any:
        def run(x: torch.Tensor) -> torch.Tensor:
            if not compiled:
                compiled.append(sum(range(3_000_000)))
            return target(x)

        return run

    found = Bench(lambda x: x + 1, torch.ones(2), compile=slow_to_start)
    assert found.legs["compiled"].cold_start > found.legs["eager"].cold_start


def test_train_step_updates_parameters_and_clears_gradients() -> None:
    model = torch.nn.Linear(2, 1)
    step = workload(model, (torch.ones(1, 2),), train=True, optimizer=lambda p: torch.optim.SGD(p, 0.1))
    before = model.weight.clone()
    step()
    first = model.weight.grad.clone()
    step()
    assert not torch.equal(model.weight, before)
    assert torch.equal(model.weight.grad, first), "gradients must not add up"


def test_forward_builds_no_graph() -> None:
    assert not workload(torch.nn.Linear(2, 2), (torch.ones(1, 2),))().requires_grad


def test_backward_goes_through_every_floating_output() -> None:
    def two(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"a": x * 2, "b": (x * 3,), "n": torch.ones(1, dtype=torch.int64)}

    seen = []
    x = torch.ones(2, requires_grad=True)

    def watched(target: Any) -> Any:
        def run(own: torch.Tensor) -> Any:
            seen.append(own)
            return target(own)

        return run

    workload(two, (x,), train=True, compile=watched)()
    assert torch.equal(seen[0].grad, torch.full((2,), 5.0))


def test_device_is_that_of_the_target_or_its_arguments() -> None:
    assert device_of(torch.nn.Linear(1, 1, device="meta"), ()).type == "meta"
    assert device_of(len, (torch.ones(1, device="meta"),)).type == "meta"
    assert device_of(len, (), {"x": torch.ones(1, device="meta")}).type == "meta"
    assert device_of(len, (3,)).type == "cpu"
    weight = torch.nn.Parameter(torch.ones(2, device="meta"))
    assert device_of(torch.optim.SGD([weight]).step).type == "meta"


def test_rounds_turn_the_order_around() -> None:
    order: list[str] = []
    legs = {name: (lambda name=name: order.append(name)) for name in "ec"}
    timing.interleave(legs, {"e": 1, "c": 1}, ScriptedTimer(*[1.0] * 100), seconds=0.0, precision=0.0)
    assert "".join(order) == "ecceec"


def test_rounds_stop_when_the_ratio_is_precise() -> None:
    legs = {"e": lambda: None, "c": lambda: None}
    timer = ScriptedTimer(*[1.0] * 1000)
    found = timing.interleave(legs, {"e": 1, "c": 1}, timer, seconds=60.0, precision=0.01)
    assert len(found["e"]) == len(found["c"]) == timing.MIN_ROUNDS


def test_quiet_host_puts_everything_back() -> None:
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    with timing.quiet_host():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert cores is None or os.sched_getaffinity(0) == cores


@pytest.mark.parametrize(("frozen", "calls"), [(0, ["freeze", "unfreeze"]), (7, [])])
def test_quiet_host_does_not_unfreeze_objects_of_the_caller(
    monkeypatch: pytest.MonkeyPatch, frozen: int, calls: list[str]
) -> None:
    made: list[str] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen)
    monkeypatch.setattr(gc, "freeze", lambda: made.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: made.append("unfreeze"))
    with timing.quiet_host():
        pass
    assert made == calls


@pytest.mark.parametrize(("steady", "calls"), [(1.0, 1), (0.008, 1), (0.0008, 10), (0.0, 2000)])
def test_block_is_filled_with_calls(steady: float, calls: int) -> None:
    assert timing.calls_per_block(steady) == calls


@pytest.mark.parametrize(
    ("took", "kernels_of_a_call", "seconds"),
    [([1.0, 2.0, 3.0, 4.0], 2, [3e-6, 7e-6]), ([1.0, 2.0, 3.0], 2, [3e-6, 3e-6]), ([], 0, [0.0, 0.0])],
)
def test_kernels_are_split_by_call(took: list[float], kernels_of_a_call: int, seconds: list[float]) -> None:
    profiled = kernels.Profiled(2, took)
    assert (profiled.kernels, profiled.seconds()) == (kernels_of_a_call, seconds)


def test_what_the_profiler_itself_waits_for_is_no_wait_of_a_call() -> None:
    assert [kernels.Profiled(6, []).per_call(count) for count in (0, 1, 5, 6, 7, 13)] == [0, 0, 0, 1, 1, 2]


def test_what_is_counted_of_the_compiled_leg() -> None:
    def breaks(x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        torch._dynamo.graph_break()
        return x.cos()

    found = quick(breaks, torch.ones(3))
    assert (found.exact.graphs, found.exact.graph_breaks, found.exact.recompiles) == (2, 1, 0)
    assert "test_bench.py" in found.breaks[0]
    assert found.exact.kernels is found.exact.memory is found.exact.syncs is None, "not known on a CPU, and not zero"
    whole = quick(torch.sin, torch.ones(3), compile=lambda target: target).exact
    assert (whole.graphs, whole.graph_breaks) == (0, 0), "what compiles nothing has no graph"


@pytest.mark.parametrize("code", ["call triton_tem_fused_mm_0(a, b)", "extern_kernels.mm(a, b)"])
def test_python_calls_are_not_compared_if_generated_kernels_compute_products(code: str) -> None:
    """A GPU chooses them by timing, and each needs more calls than a library."""
    from torch._logging._internal import trace_structured

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        trace_structured("inductor_output_code", lambda: {"filename": "code.py"}, payload_fn=lambda: code)
        return graph.forward

    found = measure_compile(torch.sin, torch.ones(3), backend=backend, seconds=0.02)
    assert (found.exact.python_calls is None) == ("triton" in code)
    assert found.python_calls is not None
