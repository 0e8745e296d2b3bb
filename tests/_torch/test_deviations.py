"""Settings of torch that leak into a check: listed where they differ from torch's defaults, and named where they decide."""

from __future__ import annotations

import contextlib
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile, compile_guard  # noqa: E402
from pytest_torch_compile._torch.deviations import deviations, note_left_by  # noqa: E402

RECOMPILES = [call(torch.ones(4)), call(torch.ones(5)), call(torch.ones(5, dtype=torch.double))]
LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"


def scaled(x):
    return x.sin() * 2


def refuses(graph, inputs):
    raise NotImplementedError("no such lowering")


@contextlib.contextmanager
def switched(set_mode, value, default):
    set_mode(value)
    try:
        yield
    finally:
        set_mode(default)


def failure_of(target, *args, **options):
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(target, *args, **{"backend": "eager", **options})
    return failure.value


def names(report):
    return [one.name for one in report.deviations]


@pytest.fixture(autouse=True)
def _nothing_compiled():
    torch._dynamo.reset()
    torch._dynamo.eval_frame.reset_code(scaled.__code__)  # torch 2.6 goes on skipping what ran while it was disabled
    yield
    torch._dynamo.reset()


def test_nothing_is_listed_under_torchs_defaults():
    for backend in ("eager", "inductor"):  # Inductor sets some of its own configuration while it works
        assert check_compile(scaled, torch.ones(4), backend=backend).deviations == []
    assert deviations() == []


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        (lambda: torch._dynamo.config.patch(suppress_errors=True), "torch._dynamo.config.suppress_errors"),
        (lambda: torch._inductor.config.patch({"triton.cudagraphs": True}), "torch._inductor.config.triton.cudagraphs"),
        (lambda: torch.compiler.set_stance("fail_on_recompile"), "torch.compiler.set_stance"),
        (lambda: switched(torch.use_deterministic_algorithms, True, False), "torch.use_deterministic_algorithms"),
        (lambda: torch.autograd.set_detect_anomaly(True), "torch.autograd.set_detect_anomaly"),
        (lambda: switched(torch.set_default_dtype, torch.float64, torch.float32), "torch.set_default_dtype"),
        (lambda: switched(torch.set_default_device, "meta", None), "torch.set_default_device"),
        (
            lambda: switched(torch.set_float32_matmul_precision, "high", "highest"),
            "torch.set_float32_matmul_precision",
        ),
    ],
)
def test_setting_is_listed_while_it_differs(setting, name):
    with setting():
        assert name in [one.name for one in deviations()]  # deterministic algorithms switch Inductor too
    assert deviations() == []


def test_value_that_is_set_to_the_default_is_not_listed():
    with torch._dynamo.config.patch(suppress_errors=False):
        assert deviations() == []


def test_environment_is_listed_and_folders_and_threads_are_not(monkeypatch):
    monkeypatch.setenv("TORCHDYNAMO_SUPPRESS_ERRORS", "1")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/x")
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    (found,) = deviations()
    assert str(found) == "TORCHDYNAMO_SUPPRESS_ERRORS is '1' (torch's default: not set), set by the environment"


def test_passing_check_lists_what_differs():
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        report = check_compile(scaled, torch.ones(4), backend="eager")
    assert names(report) == ["torch._dynamo.config.capture_scalar_outputs"]


def test_failure_lists_what_differs():
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        failure = failure_of(scaled, calls=RECOMPILES)
    listed = (
        "Settings that differ from torch's defaults:\n  torch._dynamo.config.capture_scalar_outputs is True (torch's"
    )
    assert listed in str(failure)
    assert [(finding.kind, finding.cause) for finding in failure.findings] == [("recompile", "")]


def test_error_on_recompile_is_named_and_no_stage_is_blamed():
    with torch._dynamo.config.patch(error_on_recompile=True):
        failure = failure_of(scaled, calls=RECOMPILES, max_recompiles=5, backend="aot_eager")
    (finding,) = failure.findings
    assert finding.kind == "compile-error"
    assert finding.cause == "torch._dynamo.config.error_on_recompile is True (torch's default: False)"
    assert finding.hint.startswith("reset torch._dynamo.config.error_on_recompile to False")
    assert "stage:" not in str(failure) and "aot_eager'" not in str(failure)


def test_stance_that_refuses_is_named():
    with torch.compiler.set_stance("fail_on_recompile"):
        failure = failure_of(scaled, torch.ones(4), fullgraph=False)
    assert [finding.cause[:48] for finding in failure.findings] == ["torch.compiler.set_stance is 'fail_on_recompile'"]


@pytest.mark.parametrize("stance", ["force_eager", "eager_on_recompile"])
def test_stance_under_which_nothing_compiles_is_named(stance):
    with torch.compiler.set_stance(stance):
        (finding,) = failure_of(scaled, torch.ones(4), fullgraph=False).findings
    assert finding.kind == "nothing-compiled"
    assert finding.cause == f"torch.compiler.set_stance is '{stance}' (torch's default: 'default')"


def test_stance_that_replaces_the_backend_is_not_observable():
    with torch.compiler.set_stance(force_backend="eager"):
        (finding,) = failure_of(scaled, torch.ones(4), backend="aot_eager").findings
    assert finding.kind == "not-observable" and "force_backend='eager'" in finding.cause


def test_stance_of_one_call_is_not_observable():
    calls = [call(torch.ones(4)), call(torch.ones(5)).under(partial(torch.compiler.set_stance, "eager_on_recompile"))]
    (finding,) = failure_of(scaled, calls=calls, fullgraph=False).findings
    assert finding.kind == "not-observable" and "'eager_on_recompile'" in finding.cause


def test_stance_inside_a_steady_block_is_not_observable():
    compiled = torch.compile(scaled, backend="eager")
    compiled(torch.ones(4))
    with pytest.raises(CompileCheckFailed, match="does not report whether calls ran eagerly"):
        with compile_guard(steady=True), torch.compiler.set_stance("eager_on_recompile"):
            compiled(torch.ones(5))


@pytest.mark.skipif(torch.__version__ < "2.7", reason="torch 2.6 raises under this stance if calls are counted")
def test_stance_that_raises_instead_of_running_eagerly_passes():
    compiled = torch.compile(scaled, backend="eager")
    compiled(torch.ones(4))
    with compile_guard(steady=True), torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(4))


def test_disabled_dynamo_is_named():
    with torch._dynamo.config.patch(disable=True):
        (finding,) = failure_of(scaled, torch.ones(4)).findings
    assert (finding.kind, finding.cause[:36]) == ("nothing-compiled", "torch._dynamo.config.disable is True")


def test_lowered_recompile_limit_is_named():
    with torch._dynamo.config.patch({LIMIT: 1}):
        for fullgraph in (True, False):
            failure = failure_of(scaled, calls=RECOMPILES, max_recompiles=5, fullgraph=fullgraph)
            (finding,) = failure.findings
            assert finding.kind == "eager-fallback"
            assert finding.cause == f"torch._dynamo.config.{LIMIT} is 1 (torch's default: 8)"


def test_raised_recompile_limit_is_not_blamed():
    calls = [call(torch.ones(2), "n" * size) for size in range(1, 14)]
    with torch._dynamo.config.patch({LIMIT: 10}):
        failure = failure_of(lambda x, name: x * len(name), calls=calls, max_recompiles=20, fullgraph=False)
    assert [(finding.kind, finding.cause) for finding in failure.findings] == [("eager-fallback", "")]


def test_swallowed_error_names_the_setting_that_swallows():
    with torch._dynamo.config.patch(suppress_errors=True):
        failure = failure_of(scaled, torch.ones(4), backend=refuses, fullgraph=False)
    (finding,) = failure.findings
    assert "swallowed because torch._dynamo.config.suppress_errors is True" in finding.evidence
    assert not finding.cause  # the error itself is of the code: its stage is still looked for


def test_guard_lists_and_names_settings():
    with torch.compiler.set_stance("force_eager"), pytest.raises(CompileCheckFailed) as failure:
        with compile_guard():
            torch.compile(scaled, backend="eager")(torch.ones(4))
    assert names(failure.value.report) == ["torch.compiler.set_stance"]
    assert failure.value.findings[0].cause


def test_test_that_left_a_setting_is_named():
    try:
        with torch._dynamo.config.patch(suppress_errors=True):
            note_left_by("tests/test_a.py::test_leaks")
            note_left_by("tests/test_b.py::test_innocent")
            assert [one.where for one in deviations()] == ["left by tests/test_a.py::test_leaks"]
    finally:
        note_left_by("tests/test_c.py::test_restores")
    with torch._dynamo.config.patch(suppress_errors=True):
        assert [one.where for one in deviations()] == [""]
