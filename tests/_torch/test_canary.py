"""A torch that renames or drops what the observer reads: no planted defect passes, and the reason is said."""

from __future__ import annotations

import ast
import inspect
import logging

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile, compile_guard  # noqa: E402
from pytest_torch_compile._torch import canary, trace  # noqa: E402
from pytest_torch_compile._torch.collectives import OF_AOTAUTOGRAD  # noqa: E402
from pytest_torch_compile._torch.compiled_before import compiled_codes  # noqa: E402
from pytest_torch_compile._torch.counters import OUTCOMES  # noqa: E402
from pytest_torch_compile._torch.late_compilations import EVENTS  # noqa: E402

X = torch.ones(4)


def names_read():
    """Every event, artifact and field that trace.py reads, from its code, so that a new one is tried too."""
    names = set()
    for node in ast.walk(ast.parse(inspect.getsource(trace))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            names.update(arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            names.add(node.slice.value)
    caches = {f"{cache}_cache_{outcome}" for cache in ("fx_graph", "aotautograd") for outcome in OUTCOMES}
    observer = trace.TraceObserver()
    events = {*observer._on_event, *observer._on_artifact}
    strings = {name for name in names if isinstance(name, str)} - {"cache", "outcome", "call", "op", "isEnabledFor"}
    return sorted(events | caches | set(trace._PARTS.values()) | strings)


def without(metadata, name, new_name):
    """The metadata of an event without a name, at any depth; under ``new_name`` if there is one."""
    if isinstance(metadata, list):
        return [without(entry, name, new_name) for entry in metadata]
    if not isinstance(metadata, dict):
        return new_name if metadata == name else metadata
    kept = {key: without(value, name, new_name) for key, value in metadata.items() if key != name}
    return {**kept, new_name: metadata[name]} if new_name and name in metadata else kept


@pytest.fixture
def other_torch(monkeypatch):
    """Have torch trace under other names."""
    monkeypatch.setattr(canary, "_not_shown", None)
    monkeypatch.setattr(canary, "_events_not_shown", {})
    logger = logging.getLogger("torch.__trace")
    filters = []

    def change(name, new_name):
        def rewrite(record):
            record.metadata = without(record.metadata, name, new_name)
            return True

        filters.append(rewrite)
        logger.addFilter(rewrite)

    torch._dynamo.reset()
    yield change
    for rewrite in filters:
        logger.removeFilter(rewrite)
    torch._dynamo.reset()


def broken(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()


def broken_in_loop(x):
    for _ in range(2):
        x = x.sin()
        torch._dynamo.graph_break()
    return x


def broken_in_try(x):
    try:
        torch._dynamo.graph_break()
        return x.cos()
    except ValueError:
        return x


def scaled(x, n):
    return x * n


def unchanged(x):
    return x


def newly_defined():
    namespace = {}
    exec(compile("def newly_defined(x):\n    return x + 1\n", "user_code.py", "exec"), namespace)
    return torch.compile(namespace["newly_defined"], backend="eager")


def refusing(graph, inputs):
    raise NotImplementedError("planted")


def a_break():
    check_compile(broken, X, backend="eager", fullgraph=False)


def a_break_in_a_loop():
    check_compile(broken_in_loop, X, backend="eager", fullgraph=False)


def a_break_in_a_try_block():
    check_compile(broken_in_try, X, backend="eager", fullgraph=False)


def a_recompile():
    check_compile(scaled, calls=[call(X, 2), call(X, 3)], backend="eager")


def a_fallback():
    with torch._dynamo.config.patch(**{LIMIT: 1}):
        check_compile(scaled, calls=[call(X, 2), call(X, 3)], backend="eager", fullgraph=False)


def new_code_each_time():
    with compile_guard():
        newly_defined()(X)
        newly_defined()(X)


def a_swallowed_error():
    with torch._dynamo.config.patch(suppress_errors=True):
        check_compile(scaled, X, 2, backend=refusing, fullgraph=False)


def nothing_compiled():
    check_compile(unchanged, X, backend="eager", fullgraph=False)


def a_break_in_a_guard():
    with compile_guard():
        torch.compile(broken, backend="eager")(X)


LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
DEFECTS = {
    a_break: "graph-break",
    a_break_in_a_loop: "graph-break",
    a_break_in_a_try_block: "graph-break",
    a_recompile: "recompile",
    a_fallback: "eager-fallback",
    new_code_each_time: "recompile",
    a_swallowed_error: "eager-fallback",
    nothing_compiled: "nothing-compiled",
    a_break_in_a_guard: "graph-break",
}


def kinds_of(check):
    torch._dynamo.reset()
    try:
        check()
    except CompileCheckFailed as failed:
        return {finding.kind for finding in failed.findings}
    return set()


def test_names_are_found():
    read = names_read()
    assert {"dynamo_start", "compilation_metrics", "fail_type", "recompile_reasons", "stack", "frame_id"} <= set(read)
    assert {"dynamo_graph_break_reason", "name", "fx_graph_cache_miss", "guard_count", "cudagraph_skip_reason"} <= set(
        read
    )


def test_this_torch_shows_everything(other_torch):
    assert canary.not_shown() == ([], [])
    assert {check.__name__: kind in kinds_of(check) for check, kind in DEFECTS.items()} == {
        check.__name__: True for check in DEFECTS
    }
    assert not kinds_of(lambda: check_compile(scaled, X, 2, backend="eager"))


# To a reader of a field, a renamed field is a removed one.
@pytest.mark.parametrize(
    "new_name", [None, pytest.param("of_a_new_torch", marks=pytest.mark.slow)], ids=["removed", "renamed"]
)
@pytest.mark.parametrize("name", names_read())
def test_no_planted_defect_passes(other_torch, name, new_name):
    other_torch(name, new_name)
    undecided, _ = canary.not_shown()
    for check, kind in DEFECTS.items():
        kinds = kinds_of(check)
        assert kind in kinds or "not-observable" in kinds, f"{check.__name__} gave {kinds}"
        assert not undecided or "not-observable" in kinds, check.__name__


@pytest.mark.parametrize(
    "name", ["dynamo_start", "recompile_reasons", "compilation_metrics", "fail_type", "dynamo_graph_break_reason"]
)
def test_check_of_good_code_fails_with_the_reason(other_torch, name):
    other_torch(name, "of_a_new_torch")
    with pytest.raises(
        CompileCheckFailed,
        match=r"not observable on torch \d.*\(not detected in the plugin's self-test\)",
    ) as failed:
        check_compile(scaled, X, 2, backend="eager", diagnose="full")
    assert [finding.kind for finding in failed.value.findings] == ["not-observable"]
    assert "update pytest-torch-compile" in str(failed.value) and not failed.value.report.diagnosis


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_steady_state_cannot_pass_if_torch_renames_an_event_that_shows_late_compilations(other_torch, name):
    calls = [call(X, 2)] * 2
    check_compile(scaled, calls=calls, backend="eager", warmup=1)
    canary._not_shown = None
    canary._events_not_shown.clear()
    other_torch(name, "of_a_new_torch")
    with pytest.raises(CompileCheckFailed, match=name) as failed:
        check_compile(scaled, calls=calls, backend="eager", warmup=1)
    assert [finding.kind for finding in failed.value.findings] == ["not-observable"]
    with pytest.raises(CompileCheckFailed, match=name), compile_guard(steady=True):
        pass


@pytest.mark.parametrize("names", [[name] for name in sorted(OF_AOTAUTOGRAD)] + [sorted(OF_AOTAUTOGRAD)], ids=str)
def test_a_process_of_a_group_cannot_pass_if_torch_renames_an_event_that_shows_collectives(
    other_torch, monkeypatch, names
):
    monkeypatch.setattr(canary, "is_distributed", lambda: True)
    check_compile(scaled, X, 2, backend="eager")
    canary._events_not_shown.clear()
    for name in names:
        other_torch(name, "of_a_new_torch_" + name)
    with pytest.raises(CompileCheckFailed, match=r"collectives, which the trace event") as failed:
        check_compile(scaled, X, 2, backend="eager")
    assert [finding.kind for finding in failed.value.findings] == ["not-observable"]
    assert all(name in str(failed.value) for name in names)


def test_steady_state_cannot_pass_if_an_event_cannot_be_read(other_torch):
    canary._not_shown = [], []
    canary._events_not_shown["compilations after the warm-up"] = []

    def unreadable(record):
        record.metadata = {**record.metadata, "dynamo_start": "text"} if "dynamo_start" in record.metadata else {}
        return True

    logging.getLogger("torch.__trace").addFilter(unreadable)
    try:
        with pytest.raises(CompileCheckFailed, match="a trace event could not be read"):
            with compile_guard(steady=True):
                torch.compile(scaled, backend="eager")(X, 2)
    finally:
        logging.getLogger("torch.__trace").removeFilter(unreadable)


def test_what_no_verdict_relies_on_is_a_remark_only(other_torch):
    other_torch("guard_count", None)
    report = check_compile(scaled, X, 2, backend="eager")
    assert [what.partition(": ")[2] for what in report.not_observable] == ["guards of a graph"]


def test_compile_cache_is_counted_without_the_trace(other_torch, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for cache in ("fx_graph", "aotautograd"):
        for outcome in OUTCOMES:
            other_torch(f"{cache}_cache_{outcome}", None)
    with torch._inductor.config.patch(fx_graph_cache=True):
        with pytest.raises(CompileCheckFailed, match="not in the compile cache"):
            check_compile(scaled, X, 2, backend="inductor", warm=True)


def test_nothing_of_it_is_left(other_torch, capfd, caplog):
    compiled = torch.compile(scaled, backend="eager")
    compiled(X, 2)
    convert_frame = torch._dynamo.convert_frame
    config, code = torch._dynamo.config.get_config_copy(), compiled_codes()
    counters = {name: dict(values) for name, values in torch._dynamo.utils.counters.items()}
    numbers, random = (
        (convert_frame.FRAME_COUNTER, dict(convert_frame.FRAME_COMPILE_COUNTER)),
        torch.random.get_rng_state(),
    )
    caplog.clear()
    with trace.TraceObserver() as outer:
        assert canary.not_shown() == ([], [])
        compiled(X, 2)
    assert (torch._dynamo.config.get_config_copy(), compiled_codes()) == (config, code)
    assert {name: dict(values) for name, values in torch._dynamo.utils.counters.items() if values} == {
        name: values for name, values in counters.items() if values
    }
    assert (convert_frame.FRAME_COUNTER, dict(convert_frame.FRAME_COMPILE_COUNTER)) == numbers
    assert torch.equal(torch.random.get_rng_state(), random)
    assert not outer.seen.graphs and not outer.seen.frames
    assert not caplog.records and capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "setting",
    [
        lambda: torch._dynamo.config.patch(error_on_recompile=True, **{LIMIT: 1}),
        lambda: torch._dynamo.config.patch(disable=True),
        lambda: torch.compiler.set_stance("force_eager"),
        lambda: torch.compiler.set_stance("fail_on_recompile"),
        lambda: torch.device("meta"),
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.autocast("cpu", torch.bfloat16),
    ],
    ids=["strict", "disabled", "eager", "no recompile", "meta", "inference", "no grad", "autocast"],
)
def test_settings_of_the_caller_are_no_fault_of_torch(other_torch, setting):
    with setting():
        assert canary.not_shown() == ([], [])


def test_it_runs_once(other_torch, monkeypatch):
    canary.not_shown()
    monkeypatch.setattr(canary, "_compile_planted", lambda backend_calls: pytest.fail("a second time"))
    check_compile(scaled, X, 2, backend="eager")


def test_compilation_that_is_switched_off_is_left_to_the_check(other_torch, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    assert canary.not_shown() == ([], []) and canary._not_shown is None


def test_observer_that_cannot_be_tested_is_no_pass(other_torch, monkeypatch):
    def fails(backend_calls):
        raise AttributeError("input_codes")

    monkeypatch.setattr(canary, "_compile_planted", fails)
    assert kinds_of(lambda: check_compile(scaled, X, 2, backend="eager")) == {"not-observable"}


def test_code_objects_that_cannot_be_told_apart_are_no_pass(other_torch, monkeypatch):
    """Then, the recompile of a copied function would not be noticed."""
    monkeypatch.setattr(trace, "compiled_now", lambda: None)
    with pytest.raises(CompileCheckFailed, match=r"not observable on torch .*: recompiles") as failure:
        check_compile(scaled, X, 2, backend="eager")
    assert {finding.kind for finding in failure.value.findings} == {"not-observable"}


@pytest.mark.parametrize(
    ("module", "setting", "value"),
    [
        (torch._dynamo.config, "accumulated_cache_size_limit", 1),
        (torch._dynamo.config, "enable_compiler_collectives", True),
        pytest.param(
            torch._functorch.config,
            "force_non_lazy_backward_lowering",
            True,
            marks=pytest.mark.skipif(
                not hasattr(torch._functorch.config, "force_non_lazy_backward_lowering"),
                reason="torch 2.6 and 2.8 do not have this setting",
            ),
        ),
    ],
)
def test_the_self_tests_do_not_depend_on_the_users_settings(other_torch, monkeypatch, module, setting, value):
    monkeypatch.setattr(canary, "is_distributed", lambda: True)
    with module.patch(**{setting: value}):
        assert canary.observer(steady=True).seen.undecided == []
        assert getattr(module, setting) == value
