"""The observer: what it hears, from where, and what it leaves behind."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile  # noqa: E402
from pytest_torch_compile._torch import canary  # noqa: E402
from pytest_torch_compile._torch.graph_text import graph_ops  # noqa: E402
from pytest_torch_compile._torch.trace import TraceObserver  # noqa: E402

BREAKS = Path(__file__).parents[1] / "golden" / "breaks.py"


def loaded(path, name="golden_breaks"):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


breaks = loaded(BREAKS)

# The line of each break and its fingerprint: the same on every torch, or accepted_breaks would not survive an upgrade.
PLACES = {
    "at_start": [(7, "explicit graph break", "gb-5235c04dfe")],
    "in_middle": [(13, "explicit graph break", "gb-1ea42f57fc")],
    "at_end": [(19, "explicit graph break", "gb-288e8a7dcb")],
    "in_loop": [(26, "explicit graph break", "gb-9450a303ec")],
    "in_with": [(33, "explicit graph break", "gb-bb078b42c5")],
    "in_try": [(40, "explicit graph break", "gb-74bc955ea8")],
    "in_called_function": [(47, "call to print or a logger", "gb-fdd57ad8fb")],
    "on_data": [(57, "data-dependent branch", "gb-26bb721acf")],
    "in_custom_backward": [(69, "call to print or a logger", "gb-f5651f1b5c")],
    "several": [
        (78, "call to print or a logger", "gb-6d5ec82f60"),
        (80, "call to print or a logger", "gb-c67c22d19f"),
        (82, "data-dependent branch", "gb-679c8829df"),
        (84, "explicit graph break", "gb-001799a1d7"),
    ],
    "through_a_helper": [
        (89, "explicit graph break", "gb-fd36a5e133"),
        (89, "explicit graph break", "gb-1768e760e6"),
        (89, "explicit graph break", "gb-77c1dae379"),
    ],
    "through_layers": [
        (106, "explicit graph break", "gb-5e41b7af39"),
        (106, "explicit graph break", "gb-4260301228"),
    ],
    "met_in_a_loop": [(89, "explicit graph break", "gb-1903a8b4da")],
    "in_a_comprehension": [(141, "call to print or a logger", "gb-9c592296dd")],
}


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def seen_in(function, *args, backward=False):
    with TraceObserver() as observer:
        out = torch.compile(function, backend="eager")(*args)
        if backward:
            out.sum().backward()
    return observer.seen


def state_of_trace_log():
    logger = logging.getLogger("torch.__trace")
    return list(logger.handlers), list(logger.filters), {k: v for k, v in vars(logger).items() if k != "_cache"}


def test_products_that_torch_computes_are_not_generated():
    with TraceObserver() as observer:
        torch.compile(lambda x: x @ x + 1, backend="eager")(torch.ones(4, 4))
        assert observer.generated_products is None
        torch.compile(lambda x: x @ x + 2)(torch.ones(4, 4))
    assert observer.generated_products is False


@pytest.mark.parametrize("code", ["async_compile.triton('acc += tl.dot(a, b)')", "call triton_tem_fused_mm_0(a, b)"])
def test_a_generated_kernel_that_computes_products_is_observed(code):
    from torch._logging._internal import trace_structured

    with TraceObserver() as observer:
        for text in (code, "extern_kernels.mm(a, b)"):
            trace_structured("inductor_output_code", lambda: {"filename": "code.py"}, payload_fn=lambda text=text: text)
    assert observer.generated_products is True


@pytest.mark.slow
def test_code_of_a_package_is_observed(tmp_path):
    # torch adds entries to this setting.
    with TraceObserver() as observer, torch._inductor.config.patch({"aot_inductor.metadata": {}}):
        exported = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(2, 4),))
        assert observer.generated_products is None
        torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
    assert observer.generated_products is False


@pytest.mark.parametrize("name", PLACES)
def test_break_has_the_users_line_and_a_lasting_fingerprint(name):
    found = seen_in(getattr(breaks, name), torch.ones(4, requires_grad=True), backward=True)
    assert [(b.location.line, b.category, b.fingerprint) for b in found.graph_breaks] == PLACES[name]
    assert all(b.location.file == str(BREAKS) and b.location.source for b in found.graph_breaks)
    assert all(line.file == str(BREAKS) for b in found.graph_breaks for line in b.stack)
    assert not found.undecided and not found.not_observable


def test_each_call_of_a_helper_that_breaks_is_a_break_of_its_own():
    found = seen_in(breaks.through_a_helper, torch.ones(4)).graph_breaks
    assert [[line.line for line in b.stack] for b in found] == [[94, 89], [96, 89], [99, 89]]
    assert [b.callers[0].source for b in found] == ["cut()"] * 3
    assert len({b.fingerprint for b in found}) == 3


def test_each_call_of_a_layer_that_breaks_is_a_break_of_its_own():
    found = seen_in(breaks.through_layers, torch.ones(4)).graph_breaks
    assert [[line.line for line in b.stack] for b in found] == [[116, 106], [118, 106]]


def test_break_met_in_a_loop_is_one_place_with_a_count():
    (found,) = seen_in(breaks.met_in_a_loop, torch.ones(4)).graph_breaks
    assert [line.line for line in found.stack] == [126, 132, 89]
    assert found.times > 1


def test_break_met_from_other_lines_outside_the_compiled_code_is_one_place():
    compiled = torch.compile(breaks.through_a_helper, backend="eager")
    with TraceObserver() as observer:
        compiled(torch.ones(4))
        compiled(torch.ones(5))
        compiled(torch.ones(4, dtype=torch.double))
    assert [b.times >= 3 for b in observer.seen.graph_breaks] == [True] * 3


def test_budget_counts_the_calls_of_a_helper_that_breaks():
    with pytest.raises(CompileCheckFailed, match="graph break 3 of 3, 1 allowed") as failure:
        check_compile(breaks.through_a_helper, torch.ones(4), backend="eager", max_graph_breaks=1)
    for finding, line in zip(failure.value.findings, (94, 96, 99), strict=True):
        assert f"breaks.py:{line} in through_a_helper: cut()" in finding.evidence


def test_skipped_function_is_said_to_run_in_eager():
    found = {name: seen_in(getattr(breaks, name), torch.ones(4)).graph_breaks[0] for name in ("in_loop", "in_middle")}
    assert {name: b.skipped for name, b in found.items()} == {"in_loop": "in_loop", "in_middle": ""}


def test_function_that_an_eager_vmap_calls_is_located_and_named_as_skipped():
    with TraceObserver() as observer:
        torch.compile(breaks.in_vmap, backend="aot_eager")(torch.ones(4, 3))
    shown, transform = observer.seen.graph_breaks
    assert (shown.category, shown.location.function) == ("call to print or a logger", "shown")
    assert (transform.category, transform.location.function) == ("function transform that runs eagerly", "shown")
    assert transform.skipped == "shown"  # and not in_vmap, the outermost compiled function
    assert not observer.seen.undecided


def test_break_at_a_function_that_an_eager_vmap_calls_counts_like_any_other():
    options = {"backend": "aot_eager", "fullgraph": False, "diagnose": "off"}
    assert check_compile(breaks.in_vmap, torch.ones(4, 3), max_graph_breaks=2, **options).ok
    with pytest.raises(
        CompileCheckFailed, match="remove the graph break that makes the transform run eagerly"
    ) as failed:
        check_compile(breaks.in_vmap, torch.ones(4, 3), max_graph_breaks=1, **options)
    assert {finding.kind for finding in failed.value.findings} == {"graph-break"}


def test_compiled_function_that_vmap_calls_is_located():
    with TraceObserver() as observer:
        torch.vmap(torch.compile(breaks.in_middle, backend="aot_eager"))(torch.ones(4, 3))
    assert [(one.category, one.skipped) for one in observer.seen.graph_breaks] == [
        ("function transform that runs eagerly", "in_middle")
    ]
    assert not observer.seen.undecided


def test_fingerprint_holds_when_lines_move_and_changes_with_the_code(tmp_path):
    folder = tmp_path / "golden"
    folder.mkdir()
    text = BREAKS.read_text()
    (folder / "breaks.py").write_text("# a new first line\n\n" + text)
    moved = seen_in(loaded(folder / "breaks.py", "moved").on_data, torch.ones(4)).graph_breaks
    (folder / "breaks.py").write_text(text.replace("x.sum() > 100", "x.sum() > 200"))
    changed = seen_in(loaded(folder / "breaks.py", "changed").on_data, torch.ones(4)).graph_breaks
    here = seen_in(breaks.on_data, torch.ones(4)).graph_breaks
    assert moved[0].location.line == here[0].location.line + 2
    assert moved[0].fingerprint == here[0].fingerprint != changed[0].fingerprint


def test_break_in_a_library_names_both_places(tmp_path):
    site = tmp_path / "site-packages" / "thirdparty"
    site.mkdir(parents=True)
    (site / "ops.py").write_text("def logged(x):\n    print('logged')\n    return x.cos()\n")
    library = loaded(site / "ops.py", "thirdparty_ops")

    def target(x):
        return library.logged(x.sin())

    (found,) = seen_in(target, torch.ones(4)).graph_breaks
    assert (found.location.file, found.location.function.rsplit(".")[-1]) == (__file__, "target")
    assert "library.logged" in found.location.source
    assert (found.location.library.file, found.location.library.line) == (str(site / "ops.py"), 2)


def test_fullgraph_failure_lists_every_break():
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(breaks.several, torch.ones(4), backend="eager", fullgraph=True)
    assert [f.location.line for f in failure.value.findings] == [line for line, *_ in PLACES["several"]]
    assert {f.kind for f in failure.value.findings} == {"graph-break"}


def test_same_line_in_a_method_of_another_class_is_another_break(tmp_path):
    classes = [
        f"class {name}:\n    def forward(self, x):\n        print('seen')\n        return x.sin()\n\n\n"
        for name in "AB"
    ]
    (tmp_path / "classes.py").write_text("".join(classes))
    module = loaded(tmp_path / "classes.py", "classes_with_breaks")
    found = [seen_in(getattr(module, name)().forward, torch.ones(4)).graph_breaks for name in "AB"]
    assert [len(breaks) for breaks in found] == [1, 1]
    assert found[0][0].fingerprint != found[1][0].fingerprint


def test_accepted_fingerprints_do_not_count_and_a_new_one_does():
    known = [fingerprint for *_, fingerprint in PLACES["several"]]
    report = check_compile(breaks.several, torch.ones(4), backend="eager", accepted_breaks=known)
    assert len(report.graph_breaks) == len(known)
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(breaks.several, torch.ones(4), backend="eager", accepted_breaks=known[1:])
    assert known[0] in failure.value.findings[0].evidence
    assert len(failure.value.findings) == 1


def test_observers_nest_and_each_sees_what_it_encloses():
    with TraceObserver() as outer:
        torch.compile(torch.sin, backend="eager")(torch.ones(2))
        with TraceObserver() as inner:
            torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(2))
    assert [len(observer.seen.graphs) for observer in (outer, inner)] == [2, 1]


def test_compilation_in_another_thread_is_seen():
    def work():
        torch.compile(lambda x: x.sin() * 3, backend="eager")(torch.ones(2))

    with TraceObserver() as observer:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert observer.seen.ops == 2


def test_check_runs_in_a_thread():
    reports = []
    work = threading.Thread(
        target=lambda: reports.append(check_compile(lambda x: x.sin(), torch.ones(2), backend="eager"))
    )
    work.start()
    work.join()
    assert len(reports[0].graphs) == 1


@pytest.mark.parametrize("raises", [False, True])
def test_nothing_is_left_behind(raises):
    seen_in(lambda x: x.sin(), torch.ones(2))  # torch removes a handler of its own at the first event of a process
    before = (
        state_of_trace_log(),
        dict(os.environ),
        logging.root.manager.disable,
        torch._dynamo.config.get_config_copy(),
    )
    try:
        with TraceObserver():
            torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(2))
            if raises:
                raise KeyError("of the body")
    except KeyError:
        assert raises
    after = state_of_trace_log(), dict(os.environ), logging.root.manager.disable, torch._dynamo.config.get_config_copy()
    assert after == before


def test_events_are_seen_although_the_trace_log_was_disabled():
    logger = logging.getLogger("torch.__trace")
    logger.disabled = True
    try:
        found = seen_in(breaks.in_middle, torch.ones(4))
        assert logger.disabled
    finally:
        logger.disabled = False
    assert (len(found.graphs), len(found.graph_breaks)) == (2, 1)


def test_events_are_seen_although_logging_is_disabled():
    logging.disable(logging.CRITICAL)
    try:
        found = seen_in(breaks.in_middle, torch.ones(4))
        assert logging.root.manager.disable == logging.CRITICAL
    finally:
        logging.disable(logging.NOTSET)
    assert (len(found.graphs), len(found.graph_breaks)) == (2, 1)


def test_observation_goes_on_after_the_body_resets_the_logs():
    def target(x):
        return x.sin()

    with TraceObserver() as observer:
        torch._logging.set_logs()
        torch.compile(target, backend="eager")(torch.ones(2))
    assert observer.seen.graphs or observer.seen.undecided


def test_event_that_cannot_be_read_is_said_to_be_so(monkeypatch):
    observer = TraceObserver()

    def fail(*event):
        raise ValueError("a new format")

    monkeypatch.setitem(observer._on_event, "dynamo_output_graph", fail)
    with observer:
        torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(2))
    assert any("dynamo_output_graph" in what and "a new format" in what for what in observer.seen.undecided)


@pytest.fixture
def torch_is_known():
    """What this torch shows was tried out before the test breaks a listener: it is tried once in a process."""
    canary.not_shown()


@pytest.mark.usefixtures("torch_is_known")
def test_check_that_cannot_see_does_not_pass(monkeypatch):
    def fail(self, *event):
        raise ValueError("a new format")

    monkeypatch.setattr(TraceObserver, "_artifact", fail)
    with pytest.raises(CompileCheckFailed, match="trace event artifact could not be read") as failed:
        check_compile(breaks.in_middle, torch.ones(4), backend="eager", fullgraph=False)
    assert [finding.kind for finding in failed.value.findings] == ["not-observable"]


@pytest.mark.usefixtures("torch_is_known")
def test_check_that_sees_no_graph_does_not_pass(monkeypatch):
    def fail(self, *event):
        raise ValueError("a new format")

    monkeypatch.setattr(TraceObserver, "_output_graph", fail)
    with pytest.raises(CompileCheckFailed, match="dynamo_output_graph could not be read"):
        check_compile(breaks.at_end, torch.ones(4), backend="eager", fullgraph=False, max_graph_breaks=1)


def test_events_are_filed_under_the_call_that_caused_them():
    report = check_compile(
        lambda x: x.sin(), calls=[call(torch.ones(4)), call(torch.ones(4)), call(torch.ones(5))],
        backend="eager", max_recompiles=1,
    )  # fmt: skip
    assert [graph.call for graph in report.graphs] == [1, 3]
    assert [row.outcome for row in report.calls] == ["compiled, 1 graph", "reused", "recompiled"]


def test_each_graph_tells_how_many_guards_it_hangs_on():
    def summed(values):
        return sum(values.values()) * 2

    few, many = ({f"k{n}": torch.ones(3) for n in range(size)} for size in (2, 20))
    first, second = (seen_in(summed, values).graphs[0].guards for values in (few, many))
    assert 2 <= first < second and second >= first + 18
    assert seen_in(summed, {name: value + 1 for name, value in few.items()}).graphs == []


def test_graph_that_is_traced_anew_counts_once():
    traced = []

    def backend(graph, inputs):
        traced.append(graph)
        if len(traced) == 1:
            raise torch._dynamo.exc.TensorifyScalarRestartAnalysis()
        return graph.forward

    report = check_compile(torch.sin, torch.ones(3), backend=backend)

    assert len(traced) == 2 and len(report.graphs) == 1


def test_graph_text_is_read_as_ops():
    text = "\n".join(
        [
            "class GraphModule(torch.nn.Module):",
            '    def forward(self, L_x_: "f32[4]"):',
            "        l_x_ = L_x_",
            '        sin: "f32[4]" = l_x_.sin();  l_x_ = None',
            '        add: "f32[4]" = sin + 1',
            "        set_grad = torch._C._set_grad_enabled(False)",
            "        out = torch.nn.functional.relu(add)",
            "        return (out,)",
        ]
    )
    assert graph_ops(text) == ("sin", "+", "torch.nn.functional.relu")


def writes_where(x):
    y = x.clone()
    y[x[:, 0] < 0, :] *= -1
    return y.sin()


def test_graph_that_the_backend_refuses_is_one_short_break():
    with pytest.raises(CompileCheckFailed) as failed:
        x = torch.randn(3, 4, requires_grad=True)
        check_compile(writes_where, x, train=True, fullgraph=False, backend="aot_eager", diagnose="off")
    refused = [one for one in failed.value.report.graph_breaks if one.category == "graph that the backend refuses"]
    assert len(failed.value.report.graph_breaks) <= 2 and len(refused) <= 1
    assert "WON'T CONVERT" not in str(failed.value) and "TorchDynamo Stack Trace" not in str(failed.value)


def test_ops_that_write_to_a_tensor_are_read_from_a_graph():
    text = """
    def forward(self, L_x_: "f32[3]"):
        l_x_ = L_x_
        l_x_[0] = 5;  setitem = l_x_;  setitem = None
        l_x_ += 1;  x: "f32[3]" = l_x_;  l_x_ = None
        getitem: "f32[2]" = x[slice(1, None, None)]
        x[slice(None, 2, None)] = getitem;  setitem_1 = x;  getitem = setitem_1 = None
        getitem_1 = x[0];  x = None
        getitem_1 **= 2;  ipow: "f32[]" = getitem_1;  getitem_1 = None
        eq: "b8[]" = ipow == 3
        return (eq,)
    """
    assert graph_ops(text) == ("setitem", "+=", "getitem", "setitem", "getitem", "**=", "==")
