"""What CUDA graphs did: warm-ups, recordings and replays, and runs that used none without a word."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch._inductor import cudagraph_trees, output_code  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, call, check_compile  # noqa: E402
from pytest_torch_compile._torch import trace  # noqa: E402
from pytest_torch_compile._torch.cudagraphs import (  # noqa: E402
    GIVEN_UP,
    NO_PARTITION,
    CudagraphCounts,
    watching,
)
from pytest_torch_compile.budget import Budget  # noqa: E402
from pytest_torch_compile.check.judge import Conditions, judge  # noqa: E402
from pytest_torch_compile.observation import CudagraphRuns, Graph, Observation  # noqa: E402

Manager = cudagraph_trees.CUDAGraphTreeManager
HAS_SIZES = hasattr(cudagraph_trees, "is_cudagraph_capture_sizes")
HAS_LIMIT = hasattr(torch._inductor.config.triton, "cudagraph_dynamic_shape_rerecord_limit")


@pytest.fixture
def manager(monkeypatch):
    """A manager of CUDA graphs without a GPU, which does what ``plan`` says, one word for each run."""
    made = object.__new__(Manager)
    made.__class__ = type("Planned", (Manager,), {"__del__": lambda self: None})
    for name in ("run_eager", "record_function", "execute_node"):
        monkeypatch.setattr(Manager, name, lambda self, inputs, number: inputs)

    def run(self, inputs, function_id):
        what = self.plan.pop(0)
        if what == "again":
            return self._run(inputs, function_id)
        return getattr(self, what)(inputs, function_id) if what else inputs

    monkeypatch.setattr(Manager, "_run", run)
    return made


def counted(manager, *plan):
    manager.plan, counts = list(plan), CudagraphCounts()
    with watching(counts):
        while manager.plan:
            manager._run([1], function_id=0)
    return counts


def test_each_run_is_counted_as_what_it_was(manager):
    counts = counted(manager, "run_eager", "record_function", "execute_node", "execute_node")
    assert (counts.warmed_up, counts.recorded, counts.replayed, counts.reasons()) == (1, 1, 2, [])


def test_run_that_torch_gave_up_is_one_without_a_graph(manager):
    assert counted(manager, "", "execute_node", "").reasons() == [GIVEN_UP, GIVEN_UP]


def test_run_that_begins_once_more_is_one_run(manager):
    counts = counted(manager, "again", "execute_node")
    assert (counts.managed, counts.replayed, counts.reasons()) == (1, 1, [])


def test_watchers_nest_and_leave_nothing_behind(manager):
    before = dict(vars(Manager)), dict(vars(cudagraph_trees))
    outer = CudagraphCounts()
    with watching(outer):
        inner = counted(manager, "execute_node")
        manager.plan = ["run_eager"]
        manager._run([1], function_id=0)
    assert (outer.replayed, outer.warmed_up, inner.replayed, inner.warmed_up) == (1, 1, 1, 0)
    assert (dict(vars(Manager)), dict(vars(cudagraph_trees))) == before


@pytest.mark.skipif(not HAS_SIZES, reason="the option cudagraph_capture_sizes is new in torch 2.8")
def test_size_that_is_not_captured_runs_without_a_graph():
    counts = CudagraphCounts()
    function = cudagraph_trees.cudagraphify_impl(lambda inputs: list(inputs), [8, torch.ones(8)], ())
    with torch._inductor.config.patch({"triton.cudagraph_capture_sizes": (8,)}), watching(counts):
        function([9, torch.ones(9)])
    assert counts.reasons() == ["the size 9 is not in torch._inductor.config.triton.cudagraph_capture_sizes"]


@pytest.mark.skipif(not HAS_LIMIT, reason="the option cudagraph_dynamic_shape_rerecord_limit is new in torch 2.15")
def test_size_beyond_the_limit_runs_without_a_graph():
    counts = CudagraphCounts()
    function = cudagraph_trees.cudagraphify_impl(
        lambda inputs: list(inputs), [8, torch.ones(8)], (), is_backward=False, is_inference=True, compile_id="0/0"
    )
    with torch._inductor.config.patch({"triton.cudagraph_dynamic_shape_rerecord_limit": 0}), watching(counts):
        function([9, torch.ones(9)])
    assert ["rerecord_limit" in reason for reason in counts.reasons()] == [True]


@pytest.mark.skipif(not HAS_SIZES, reason="the option cudagraph_capture_sizes is new in torch 2.8")
def test_observer_files_runs_under_their_call(monkeypatch):
    monkeypatch.setattr(trace, "cuda_is_there", lambda: True)
    function = cudagraph_trees.cudagraphify_impl(lambda inputs: list(inputs), [8, torch.ones(8)], ())
    observer = trace.TraceObserver()
    with torch._inductor.config.patch({"triton.cudagraph_capture_sizes": (8,)}):
        for observer.call in (1, 2):
            with observer:
                function([9, torch.ones(9)] * observer.call)
    assert [(run.call, len(run.without)) for run in observer.seen.cudagraph_runs] == [(1, 1), (2, 1)]


def test_skips_of_each_call_are_counted():
    observer = trace.TraceObserver()
    for reason in ("first", "second"):
        with observer:
            torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] += 1
            if reason == "first":
                observer.seen.cudagraph_skips.append(reason)
    assert observer.seen.cudagraph_skips == ["first", "reason not reported by this torch version"]


def judged(runs, skips=()):
    seen = Observation(graphs=[Graph("f", ("sin",))], cudagraph_skips=list(skips), cudagraph_runs=runs)
    return judge(seen, Budget(), Conditions(cudagraphs=True, torch_limit=8))


def test_warm_up_recording_and_replay_are_no_finding():
    assert judged([CudagraphRuns(1, warmed_up=2), CudagraphRuns(2, recorded=2), CudagraphRuns(3, replayed=2)]) == []


def test_runs_without_a_graph_are_a_finding_that_names_their_calls():
    (finding,) = judged([CudagraphRuns(1, warmed_up=1), CudagraphRuns(3, without=("why",)), CudagraphRuns(4, 0, 0, 1)])
    assert finding.kind == "cudagraph-skip"
    assert finding.message == "CUDA graphs were requested, but not used in 1 run (call 3); 0 allowed"
    assert finding.evidence == "why (x1)\nruns: 1 warmed up, 0 recorded, 1 replayed, 1 without a CUDA graph"


def test_skips_and_runs_are_one_finding():
    (finding,) = judged(
        [CudagraphRuns(2, without=(GIVEN_UP,)), CudagraphRuns(3, without=(GIVEN_UP,))], ["mutated inputs"]
    )
    assert (
        finding.message
        == "CUDA graphs were requested, but skipped 1 time and not used in 2 runs (calls 2, 3); 0 allowed"
    )


def scaled(x):
    return x.sin() * 2 + 1


def changed(x):
    x.add_(1)
    return x * 2


def on_cuda(test):
    needs = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    return pytest.mark.gpu(needs(test))


def on_gpu(*sizes):
    return [call(torch.ones(size, 16, device="cuda")) for size in sizes]


def reduce_overhead(target, sizes, **options):
    return check_compile(target, calls=on_gpu(*sizes), **{"mode": "reduce-overhead", "dynamic": True, **options})


@on_cuda
def test_graph_is_warmed_up_recorded_and_replayed():
    report = reduce_overhead(scaled, [8, 8, 8, 8])
    runs = report.observation.cudagraph_runs
    assert [run.call for run in runs] == [1, 2, 3, 4]
    assert sum(run.warmed_up for run in runs) >= 1 and sum(run.replayed for run in runs) >= 1
    assert not any(run.without for run in runs)


@on_cuda
def test_single_call_which_only_warms_up_is_no_finding():
    assert reduce_overhead(scaled, [8]).ok


@on_cuda
@pytest.mark.skipif(not HAS_SIZES, reason="the option cudagraph_capture_sizes is new in torch 2.8")
def test_call_with_a_size_that_is_not_captured_is_a_finding():
    # One dynamic dimension: with two, torch looks for pairs of sizes.
    one = {"dynamic": None, "dynamic_dims": {"x": 0}}
    with torch._inductor.config.patch({"triton.cudagraph_capture_sizes": (8,)}):
        assert reduce_overhead(scaled, [8, 8, 8], **one).ok
        with pytest.raises(CompileCheckFailed, match=r"not used in 2 runs \(calls 3, 4\)") as failure:
            reduce_overhead(scaled, [8, 8, 9, 10, 8], **one)
    assert {finding.kind for finding in failure.value.findings} == {"cudagraph-skip"}


@on_cuda
@pytest.mark.skipif(not HAS_LIMIT, reason="the option cudagraph_dynamic_shape_rerecord_limit is new in torch 2.15")
def test_call_beyond_the_limit_of_dynamic_shapes_is_a_finding():
    with torch._inductor.config.patch({"triton.cudagraph_dynamic_shape_rerecord_limit": 1}):
        with pytest.raises(CompileCheckFailed, match=r"not used in 1 run \(call 3\)"):
            reduce_overhead(scaled, [8, 8, 9, 8])


@on_cuda
def test_input_that_is_changed_in_place_is_a_finding():
    with pytest.raises(CompileCheckFailed) as failure:
        reduce_overhead(changed, [8, 8, 8])
    assert {finding.kind for finding in failure.value.findings} == {"cudagraph-skip"}


def test_graph_of_which_no_part_can_be_a_cuda_graph_is_said_to_be(monkeypatch):
    if not hasattr(output_code, "cudagraph_partition_post_compile"):
        pytest.skip("torch 2.6 does not partition graphs")
    monkeypatch.setattr(output_code, "cudagraph_partition_post_compile", lambda *args: None)
    graph = type("Graph", (), {"cudagraph_info": None, "partition_maps": []})
    counts = CudagraphCounts()
    with watching(counts):
        output_code.cudagraph_partition_post_compile([], graph, True, {}, None)
        output_code.cudagraph_partition_post_compile([], graph, False, {}, None)
    assert counts.not_used == [NO_PARTITION]
