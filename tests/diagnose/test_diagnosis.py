"""What a failed check says beyond its findings: the stage, the smallest module, advice that was tried and holds."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
from torch import nn  # noqa: E402
from torch.compiler import is_dynamo_compiling  # noqa: E402

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, check_compile  # noqa: E402
from pytest_torch_compile.diagnose import STEPS, subject  # noqa: E402
from pytest_torch_compile.diagnose.subject import OutOfTime, Subject  # noqa: E402
from pytest_torch_compile.findings import Finding  # noqa: E402


@pytest.fixture(autouse=True)
def enough_time(monkeypatch):
    """The usual limit, 3 s for a short check, may not be enough on a busy machine."""
    monkeypatch.setattr("pytest_torch_compile.diagnose.LEAST", 60.0)


def diagnosis(target, *args, level="auto", **options):
    """The lines of a check that fails."""
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, *args, diagnose=level, **options)
    lines = failed.value.report.diagnosis
    assert all(line in str(failed.value) for line in lines)
    return lines


class Lying(nn.Module):
    """Does something else when it is compiled."""

    def forward(self, x):
        return x * 2 if torch.compiler.is_compiling() else x * 3


class Breaking(nn.Module):
    def forward(self, x):
        torch._dynamo.graph_break()
        return x.sin()


class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x).cos()


class Stack(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


def scaled(x, factor):
    return x * factor


def batches(*sizes):
    return [(torch.randn(size, 4),) for size in sizes]


def of_another_dtype(x):
    """NumPy promotes to int64, and the function that dynamo takes for it keeps int8."""
    return torch.from_numpy(np.cumsum(x.numpy()))


def test_stage_is_dynamo_when_the_captured_graph_is_wrong():
    (line,) = diagnosis(of_another_dtype, torch.ones(3, dtype=torch.int8), backend="aot_eager")
    assert line.startswith("stage: fails with backend eager. The cause is in dynamo")


def test_stage_is_the_last_one_when_the_earlier_hold(monkeypatch):
    """A decomposition is wrong that only the backends with decompositions use."""
    from torch._inductor import decomposition

    def wrong(x):
        return torch.ops.aten.mul(x, 1.5)

    monkeypatch.setitem(decomposition.decompositions, torch.ops.aten.sinh.default, wrong)
    decomposition.fast_random_decomps.cache_clear()
    line, op = diagnosis(torch.sinh, torch.randn(4), backend="aot_eager_decomp_partition")
    assert line.startswith(
        "stage: fails with backend aot_eager_decomp_partition (passes with backend eager, aot_eager)"
    )
    assert op == "op: in a trial run, the result is correct without the decomposition of aten.sinh.default"


def test_stage_is_not_known_where_an_earlier_backend_fails_in_another_way(monkeypatch):
    again = Subject.again

    def otherwise(subject, backend=None, **changes):
        report = again(subject, backend, **changes)
        if backend == "eager":
            report.findings = [Finding("exception", "compiled code raises ValueError")]
        return report

    monkeypatch.setattr(Subject, "again", otherwise)
    (line,) = diagnosis(Lying(), torch.randn(4), backend="aot_eager")
    assert line == "stage: unknown, because the check fails in a different way with backend eager: exception"


def test_recompiles_have_no_stage():
    assert not [
        line for line in diagnosis(nn.Linear(4, 4), calls=batches(4, 6), backend="aot_eager") if "stage" in line
    ]


def test_advice_names_what_made_the_budget_hold_with_the_result():
    lines = diagnosis(nn.Linear(4, 4), calls=batches(5, 6, 7), backend="eager")
    assert lines == [
        "tried: dynamic_dims={'input': 0}: 0 recompiles instead of 1",
        "tried: dynamic=True: 0 recompiles instead of 1",
        "tried: pad input to a multiple of 8: 0 recompiles instead of 1",
    ]


def test_advice_for_a_number_is_a_tensor():
    x = torch.randn(4)
    lines = diagnosis(scaled, calls=[(x, 2.0), (x, 3.0), (x, 4.0)], backend="eager", dynamic=False)
    (line,) = lines  # torch 2.6 makes the number dynamic all the same, and so compiles once less
    assert line.startswith("tried: pass factor as a tensor instead of a Python number: 0 recompiles instead of ")


def test_advice_that_does_not_help_is_not_named():
    calls = [(torch.randn(4),), (torch.randn(4, dtype=torch.float64),)]
    assert diagnosis(scaled, calls=[(*call, 2.0) for call in calls], backend="eager") == []


def test_advice_for_eager_fallback_says_that_it_is_gone():
    sizes = range(2, 14)
    lines = diagnosis(nn.Linear(4, 4), calls=batches(*sizes), backend="eager", dynamic=False, fullgraph=False)
    assert "tried: dynamic_dims={'input': 0}: 0 recompiles instead of 7, no eager fallback" in lines


def test_smallest_module_is_found_through_a_list():
    target = Stack(Block(nn.Tanh()), Block(Breaking()))
    line, _ = diagnosis(target, torch.randn(2, 4), backend="eager", level="full")
    assert line == "smallest module: blocks.1.inner (Breaking) has the same finding when it is checked alone"


def test_smallest_module_is_found_in_training():
    target = Stack(Block(nn.Tanh()), Block(Lying()))
    lines = diagnosis(target, torch.randn(2, 4), backend="eager", level="full", train=True)
    assert lines[0].startswith("stage: the cause is not in torch. The code branches on is_compiling()")
    assert lines[1:] == ["smallest module: blocks.1.inner (Lying) has the same finding when it is checked alone"]


def test_whole_model_is_not_called_its_smallest_module():
    lines = diagnosis(Breaking(), torch.randn(4), backend="eager", level="full")
    assert not [line for line in lines if "smallest module" in line]


def test_auto_does_not_look_for_the_smallest_module():
    lines = diagnosis(Stack(Block(Breaking())), torch.randn(2, 4), backend="eager")
    assert not [line for line in lines if "smallest module" in line]


def test_off_looks_for_nothing():
    assert diagnosis(nn.Linear(4, 4), calls=batches(4, 6), backend="eager", level="off") == []


def test_check_that_passes_has_no_diagnosis():
    report = check_compile(nn.Linear(4, 4), torch.randn(2, 4), backend="eager", diagnose="full")
    assert report.diagnosis == []


def test_no_trial_begins_after_the_time(monkeypatch):
    monkeypatch.setattr(subject.Subject, "left", property(lambda self: 0.0))
    (line,) = diagnosis(nn.Linear(4, 4), calls=batches(4, 6), backend="eager")
    assert line.startswith("the diagnosis reached its limit of 60 s before it could search for fixes for recompiles")


def test_diagnosis_that_raises_does_not_hide_the_failure(monkeypatch):
    monkeypatch.setitem(STEPS["auto"], "fixes for recompiles", lambda subject: 1 / 0)
    (line,) = diagnosis(nn.Linear(4, 4), calls=batches(4, 6), backend="eager")
    assert line == "the search for fixes for recompiles failed: ZeroDivisionError: division by zero"


def test_unknown_level_is_a_usage_error():
    with pytest.raises(CompileUsageError, match="choose one of off, auto, full"):
        check_compile(nn.Linear(4, 4), torch.randn(2, 4), backend="eager", diagnose="some")


def test_callers_model_and_inputs_are_as_before():
    model, x = Stack(Block(Breaking())), torch.randn(2, 4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    kept = x.clone()
    diagnosis(model, x, backend="eager", level="full")
    assert torch.equal(x, kept)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_step_without_time_does_not_end_the_others_and_names_the_option(monkeypatch):
    def out_of_time(subject):
        raise OutOfTime

    steps = {"the dear one": out_of_time, "the cheap one": lambda subject: ["found"], "another": out_of_time}
    monkeypatch.setitem(STEPS, "auto", steps)
    lines = diagnosis(nn.Linear(4, 4), calls=batches(4, 6), backend="eager")
    assert lines == [
        "found",
        "the diagnosis reached its limit of 60 s before it could search for the dear one, another: use "
        "diagnose='full' (--compile-diagnose=full) to allow the diagnosis up to ten minutes",
    ]


def test_trials_without_code_generation_come_first():
    assert list(STEPS["auto"])[:2] == ["fixes for recompiles", "fixes for graph breaks"]
    assert list(STEPS["full"])[-1] == "the Inductor op and option"


def by_flag(x):
    return x + 1 if torch.compiler.is_compiling() else x


def by_imported_name(x):
    return x.sin() if is_dynamo_compiling() else x.cos()


def by_flag_and_right(x):
    return x + 0 if torch.compiler.is_compiling() else x.clone()


@pytest.mark.parametrize("target", [by_flag, by_imported_name])
def test_branch_for_compiled_code_is_no_fault_of_dynamo(target):
    (line,) = diagnosis(target, torch.randn(4), backend="aot_eager")
    assert line.startswith("stage: the cause is not in torch. The code branches on is_compiling() (")
    assert line.endswith("the eager run has the same findings when it takes the branch for compiled code")
    assert f"in {target.__name__}" in line


def test_wrong_graph_beside_a_branch_that_changes_something_else_is_not_blamed_on_the_branch():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen.add_(2 if torch.compiler.is_compiling() else 1)
            return of_another_dtype(x)

    (line,) = diagnosis(Both(), torch.ones(3, dtype=torch.int8), backend="aot_eager")
    assert line.startswith("stage: unknown. The code branches on is_compiling() (")


def test_wrong_graph_beside_a_branch_for_compiled_code_is_dynamos():
    def both(x):
        return of_another_dtype(by_flag_and_right(x))

    (line,) = diagnosis(both, torch.ones(3, dtype=torch.int8), backend="aot_eager")
    assert line.startswith("stage: fails with backend eager. The cause is in dynamo")
    assert not torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
