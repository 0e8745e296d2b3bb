"""The steady state: after warm-up nothing compiles. Planted defects and code that must pass."""

from __future__ import annotations

import inspect
import threading

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_compile, compile_guard  # noqa: E402


def curve(x, n=1):
    return x.sin() * n


def other(x):
    return x.cos() + 1


def parts(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, backend="aot_eager", **options)


def warm(function, *calls):
    run = compiled(function)
    for args in calls:
        run(*args)
    return run


def rows(size, **options):
    return torch.ones(size, 2, **options)


def new_size():
    run = warm(curve, [rows(4)])
    yield
    run(rows(5))


def size_one_of_a_dynamic_graph():
    run = warm(curve, [rows(4)], [rows(5)])
    yield
    run(rows(9))
    run(rows(1))


def new_number():
    run = warm(curve, [rows(4), 2])
    yield
    run(rows(4), 3)


def first_compilation_of_another_function():
    warm(curve, [rows(4)])
    run = compiled(other)
    yield
    run(rows(4))


def first_backward():
    run = warm(curve, [rows(4, requires_grad=True)])
    x = rows(4, requires_grad=True)
    yield
    run(x).sum().backward()


def another_grad_mode():
    run = warm(curve, [rows(4, requires_grad=True)])
    yield
    with torch.no_grad():
        run(rows(4, requires_grad=True))


def compiled_again_in_each_request():
    warm(lambda x: x.tan(), [rows(4)])
    yield
    compiled(lambda x: x.tan())(rows(4))


def in_a_thread():
    run = warm(curve, [rows(4)])
    yield
    thread = threading.Thread(target=run, args=(rows(4).double(),))
    thread.start()
    thread.join()


def after_a_reset():
    run = warm(curve, [rows(4)])
    yield
    torch._dynamo.reset()
    run(rows(4))


PLANTED = {
    new_size: "size mismatch at index 0. expected 4, actual 5",
    size_one_of_a_dynamic_graph: "size",
    new_number: "2",
    first_compilation_of_another_function: "compiled for the first time",
    first_backward: "compiled the backward",
    another_grad_mode: "grad",
    compiled_again_in_each_request: "lambda",
    in_a_thread: "dtype mismatch",
    after_a_reset: "compiled for the first time",
}


def same_sizes():
    run = warm(curve, [rows(4)])
    yield
    for _ in range(3):
        run(rows(4))


def sizes_of_a_dynamic_graph():
    run = warm(curve, [rows(4)], [rows(5)])
    yield
    for size in (2, 9, 300):
        run(rows(size))


def backward_that_ran_before():
    run = compiled(curve)
    run(rows(4, requires_grad=True)).sum().backward()
    x = rows(4, requires_grad=True)
    yield
    run(x).sum().backward()


def eager_code_beside():
    run = warm(curve, [rows(4)])
    yield
    other(run(rows(4)))


def graphs_around_a_break():
    run = warm(parts, [rows(4)])
    yield
    run(rows(4))


def another_instance_of_a_module():
    warm(torch.nn.Linear(2, 2), [rows(4)])
    run = warm(torch.nn.Linear(2, 2), [rows(4)])
    yield
    run(rows(4))


def captured_and_run_without_dynamo():
    warm(curve, [rows(4)])
    yield
    curve(rows(4))


INNOCENTS = [
    same_sizes,
    sizes_of_a_dynamic_graph,
    backward_that_ran_before,
    eager_code_beside,
    graphs_around_a_break,
    another_instance_of_a_module,
    captured_and_run_without_dynamo,
]


def run_guarded(scenario):
    body = scenario()
    next(body)
    with compile_guard(steady=True):
        next(body, None)


@pytest.mark.parametrize("scenario", PLANTED, ids=lambda one: one.__name__)
def test_what_compiles_after_the_warm_up_is_found_at_its_line(scenario):
    with pytest.raises(CompileCheckFailed, match="after the warm-up, 0 allowed") as failure:
        run_guarded(scenario)
    assert {finding.kind for finding in failure.value.findings} == {"recompile"}
    (finding,) = failure.value.findings
    assert PLANTED[scenario] in f"{finding.message}\n{finding.evidence}"
    assert finding.location.file == __file__
    if scenario is not in_a_thread:
        lines, start = inspect.getsourcelines(scenario)
        assert finding.location.line in range(start, start + len(lines)), finding.location
        assert finding.location.source and finding.location.source in finding.evidence


@pytest.mark.parametrize("scenario", INNOCENTS, ids=lambda one: one.__name__)
def test_what_is_warm_passes(scenario):
    run_guarded(scenario)


def test_block_in_a_process_that_compiled_nothing_proves_nothing():
    with pytest.raises(CompileCheckFailed, match="no compiled function was called") as failure:
        with compile_guard(steady=True):
            curve(rows(4))
    assert [finding.kind for finding in failure.value.findings] == ["nothing-compiled"]


def test_steady_state_allows_no_recompiles():
    with pytest.raises(CompileUsageError, match="steady=True does not allow any compilation"):
        with compile_guard(steady=True, max_recompiles=1):
            pass


def test_guard_after_the_steady_one_sees_as_before():
    run_guarded(same_sizes)
    with compile_guard() as seen:
        compiled(other)(rows(4))
    assert len(seen.graphs) == 1


SIZES = {
    "new size": ([4, 4, 5], 1, {"max_recompiles": 1}),
    "size 1": ([4, 5, 9, 1], 3, {"max_recompiles": 2}),
    "third size with dynamic off": ([4, 5, 6], 2, {"max_recompiles": 2, "dynamic": False}),
}


@pytest.mark.parametrize("case", SIZES)
def test_call_after_the_warm_up_that_compiles_is_found_though_the_budget_allows_it(case):
    sizes, warmup, options = SIZES[case]
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(curve, calls=[rows(size) for size in sizes], warmup=warmup, backend="eager", **options)
    (finding,) = failure.value.findings
    assert (finding.kind, finding.calls, finding.subject) == ("recompile", (len(sizes),), "curve")
    assert "size" in finding.evidence and "size" in finding.hint
    assert finding.location.line == curve.__code__.co_firstlineno


def test_first_compilation_in_a_call_after_the_warm_up_is_found():
    calls = [rows(4), rows(4).double()]
    with pytest.raises(CompileCheckFailed, match="after the warm-up"):
        check_compile(curve, calls=calls, warmup=1, backend="eager", max_recompiles=1)


@pytest.mark.parametrize(
    ("sizes", "warmup", "options"),
    [
        ([4, 4], 1, {}),
        ([4, 5, 6, 7, 300], 2, {"max_recompiles": 1}),
        ([4, 5, 6], 1, {"dynamic": True}),
        ([4, 5, 4, 5], 2, {"max_recompiles": 1, "dynamic": False}),
        ([4, 4], 1, {"train": True}),
    ],
)
def test_calls_that_are_warm_pass(sizes, warmup, options):
    calls = [rows(size, requires_grad=True) for size in sizes]
    report = check_compile(curve, calls=calls, warmup=warmup, backend="aot_eager", **options)
    assert report.ok


def test_recompiles_of_the_warm_up_stay_within_the_budget():
    with pytest.raises(CompileCheckFailed, match="1 recompile, 0 allowed"):
        check_compile(curve, calls=[rows(4), rows(5), rows(6)], warmup=2, backend="eager")


@pytest.mark.parametrize("warmup", [0, 2, -1, True, 1.0])
def test_warm_up_that_leaves_no_call_is_refused(warmup):
    with pytest.raises(CompileUsageError, match=r"warmup=.* with 2 calls"):
        check_compile(curve, calls=[call(rows(4)), call(rows(4))], warmup=warmup, backend="eager")
