"""Fixes and messages name the true cause: under fullgraph, for sizes that the code makes constant, in a backward pass,
and when the check itself uses a backend that the fix would recommend.
"""

import functools
import re

import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, call, check_compile
from pytest_torch_compile._torch import support
from pytest_torch_compile.numerics import CallRecord
from pytest_torch_compile.numerics.messages import exception_findings

captures = pytest.mark.skipif(
    not support.FULLGRAPH_CAPTURES_MORE, reason="before torch 2.10, fullgraph does not capture more ops"
)


def findings(target, *args, backend="eager", **options):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, *args, backend=backend, diagnose="off", **options)
    return failed.value.report.findings


def branches_on_a_length(x):
    y = x[x > 0]
    if len(y) == 0:
        return x.sum()
    return y.mean()


def branches_on_an_item(x):
    n = x.sum().int().item()
    if n > 3:
        return x
    return x + 1


def filters_and_prints(x):
    y = x[x > 0]
    print("filtered")
    return y.sum()


@captures
@pytest.mark.parametrize(
    ("target", "line"), [(branches_on_a_length, "if len(y) == 0:"), (branches_on_an_item, "if n > 3:")]
)
def test_break_under_fullgraph_shows_the_branch_at_which_torch_stops(target, line):
    (found,) = findings(target, torch.linspace(-1, 1, 6))
    assert (
        "with fullgraph=True, torch captures this op, and tracing stops at tests/check/test_true_causes.py"
        in found.evidence
    )
    assert found.evidence.endswith(line)
    assert "torch.cond" in found.hint and "capture_" not in found.hint


@captures
def test_op_that_fullgraph_captures_is_not_the_break_to_remove_first():
    of_op, of_print = findings(filters_and_prints, torch.linspace(-1, 1, 6))
    assert "remove the break at that line first" in of_op.hint
    assert of_print.message.endswith("call to print or a logger") and "captures this op" not in of_print.evidence


def test_without_fullgraph_the_fix_is_about_the_op():
    (found,) = findings(branches_on_a_length, torch.linspace(-1, 1, 6), fullgraph=False)
    assert "captures this op" not in found.evidence and "torch.nonzero_static" in found.hint


def loops(x):
    total = x.new_zeros(())
    for i in range(x.shape[0]):
        total = total + x[i].sum()
    return total


def scales(x):
    return x * 2


def batches(*sizes):
    return [call(torch.ones(size, 4)) for size in sizes]


@pytest.mark.parametrize("options", [{}, {"dynamic": True}], ids=["automatic", "dynamic"])
def test_loop_over_a_dimension_is_not_told_to_mark_the_dimension(options):
    (found,) = findings(loops, calls=batches(3, 5, 7), **options)
    assert "Python loop over the dimension" in found.hint and "compile with dynamic=True" not in found.hint


@pytest.mark.parametrize(
    ("target", "sizes", "options"),
    [(scales, (3, 5), {}), (loops, (3, 5), {}), (scales, (3, 5, 7), {"dynamic": False})],
    ids=["one recompile", "cause not yet known", "dynamic=False"],
)
def test_size_that_torch_can_make_dynamic_is_told_to_mark_it(target, sizes, options):
    (found,) = findings(target, calls=batches(*sizes), **options)
    assert "compile with dynamic=True" in found.hint


def pads_to_a_multiple(x):
    rows = x.shape[0] / 8
    return x * 2 if rows.is_integer() else torch.nn.functional.pad(x, (0, 0, 0, 1))


def test_size_that_the_code_divides_is_not_told_to_mark_the_dimension():
    (found,) = findings(pads_to_a_multiple, calls=batches(16, 21, 30), max_recompiles=1)
    assert "a division with /" in found.hint and "compile with dynamic=True" not in found.hint


@pytest.mark.parametrize("target", [loops, scales])
def test_size_is_not_called_constant_if_torch_makes_no_size_dynamic(target):
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        (found,) = findings(target, calls=batches(3, 5, 7))
    assert "compile with dynamic=True" in found.hint


class RaisesInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("not differentiable here")


def test_exception_in_an_eager_backward_pass_is_called_one():
    with pytest.raises(CompileUsageError, match="the backward pass of call 1 raises an exception in eager") as raised:
        check_compile(RaisesInBackward.apply, torch.ones(2, requires_grad=True), train=True, backend="eager")
    assert "in backward" in str(raised.value)


def test_exception_that_only_compiled_code_raises_names_the_part_of_the_call():
    eager, compiled = CallRecord(), CallRecord(part="backward pass", error=ValueError("not differentiable here"))
    (found,) = exception_findings(eager, compiled)
    assert found.message == "compiled code raises ValueError in the backward pass, but eager does not"


def test_exception_in_a_forward_pass_is_not_said_to_be_in_backward():
    def raises(x):
        raise ValueError("never")

    with pytest.raises(CompileUsageError, match=r"^call 1 raises an exception in eager"):
        check_compile(raises, torch.ones(2), train=True, backend="eager")


def wrong_when_compiled(x):
    return x + 1 if torch.compiler.is_compiling() else x + 2


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("eager", "look at the code itself"),
        ("aot_eager", "try backend='eager': if the check then passes, AOTAutograd is at fault"),
    ],
)
def test_fix_does_not_recommend_the_backend_of_the_check(backend, said):
    (found,) = findings(wrong_when_compiled, torch.ones(3), backend=backend)
    assert said in found.hint and "then backend='aot_eager'" not in found.hint


def test_branch_for_compiled_code_is_found_with_backend_eager():
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(wrong_when_compiled, torch.ones(3), backend="eager", diagnose="auto")
    assert failed.value.report.diagnosis[0].startswith(
        "stage: the cause is not in torch. The code branches on is_compiling()"
    )


def raises_when_compiled(x):
    if torch.compiler.is_compiling():
        raise ValueError("never compile this")
    return x + 1


def test_exception_that_compiled_code_alone_raises_is_not_called_untraceable():
    hints = [one.hint for one in findings(raises_when_compiled, torch.ones(3))]
    assert any("look for torch.compiler.is_compiling()" in hint for hint in hints)
    assert not any("report an issue to PyTorch" in hint for hint in hints)


def breaks_in_a_loop(x):
    for _ in range(2):
        torch._dynamo.graph_break()
        x = x + 1
    return x


def test_skipped_function_is_named():
    (found,) = findings(breaks_in_a_loop, torch.ones(3), fullgraph=False)[:1]
    assert "torch skipped breaks_in_a_loop, so all of breaks_in_a_loop runs eagerly" in found.evidence


def test_stage_that_raised_is_named_with_its_line():
    from torch._inductor.graph import GraphLowering

    with pytest.MonkeyPatch.context() as patch, torch._inductor.config.patch(force_disable_caches=True):
        patch.setattr(GraphLowering, "codegen", None)
        (found,) = findings(lambda x: x + 1, torch.ones(4), backend="inductor")
    assert "torch was at torch/_inductor/graph.py" in found.evidence
    assert "Inductor raised this exception" in found.hint and "backend='eager'" not in found.hint


def test_op_that_refuses_its_arguments_only_while_it_is_traced_is_told_that_no_backend_helps():
    def target(x):
        return x.view(7) if torch.compiler.is_compiling() else x

    (found,) = findings(target, torch.ones(4), backend="aot_eager")
    assert found.kind == "compile-error" and "fake tensors" in found.hint and "other backends do not help" in found.hint


def test_line_that_raised_in_code_that_a_stage_runs_is_shown():
    with torch.library._scoped_library("error_stage", "FRAGMENT") as library:
        library.define("wrong(Tensor x) -> Tensor")
        library.impl("wrong", lambda x: x.clone(), "CPU")

        def fake(x):
            raise ValueError("wrong sizes")

        torch.library.register_fake("error_stage::wrong", fake, lib=library)
        (found,) = findings(lambda x: torch.ops.error_stage.wrong(x) + 1, torch.ones(4))
    assert re.search(r"raised at .*test_true_causes.py:\d+ in fake", found.evidence)
    assert "look for the cause at the line that raised" in found.hint


def test_gradient_of_a_compiled_gradient_is_told_to_use_torch_func():
    inner = torch.compile(lambda x: (x * 2).sum(), backend="aot_eager")

    def target(x):
        y = inner(x.sin())
        (slope,) = torch.autograd.grad(y, x, create_graph=True)
        return slope.sum()

    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(
            target,
            torch.ones(3, requires_grad=True),
            backend="aot_eager",
            train=True,
            fullgraph=False,
            max_graph_breaks=9,
        )
    assert any("torch.func.grad" in found.hint for found in failed.value.report.findings)


class WritesWhenCompiled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        if torch.compiler.is_compiling():
            self.total += 1
        return x * 2


def test_buffer_that_only_compiled_code_writes_is_not_told_to_clone_an_argument():
    (found,) = findings(WritesWhenCompiled(), torch.ones(2))
    assert found.kind == "mutation" and "is_compiling()" in found.hint and "before passing it" not in found.hint


def helper(y):
    return y * 2


def test_guard_of_a_function_that_the_target_calls_is_shown_with_its_name():
    calls = [call(torch.ones(8), 4), call(torch.ones(8), 5)]
    helped = torch.compile(helper, backend="eager", dynamic=False)

    def target(x, rows):
        return helped(x[:rows])

    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, calls=calls, backend="eager", compile=lambda t: t, diagnose="off")
    assert failed.value.report.calls[1].guard.startswith("in helper: tensor 'y' size mismatch")


@torch.no_grad()
def decorated(x):
    return x.sin()


class Callable:
    def __call__(self, x):
        return x.cos()


@pytest.mark.parametrize("target", [torch.nn.Sequential(torch.nn.ReLU()), decorated, Callable()])
def test_code_that_torch_compiles_through_its_own_function_does_not_have_its_name(target):
    (found,) = findings(target, calls=[call(torch.ones(4)), call(torch.ones(5))])
    assert found.evidence.startswith("call 2: the module or function (size): graph 1 was not reused")


def test_call_that_fails_in_eager_only_is_told_so():
    def target(x):
        if not torch.compiler.is_compiling():
            raise ValueError("eager")
        return x + 1

    (found,) = findings(target, torch.ones(4))
    assert found.hint.startswith("the call fails in eager code")


def wrapped(function):
    @functools.wraps(function)
    def wrapper(x):
        return function(x) + 1

    return wrapper


def with_forward_of_its_own():
    module = torch.nn.Module()
    module.forward = lambda x: x.sin()
    return module


@pytest.mark.parametrize(
    "target", [helper, wrapped(helper), with_forward_of_its_own()], ids=["plain", "wrapped", "assigned"]
)
def test_guard_of_the_target_itself_is_shown_without_a_name(target):
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(target, calls=[call(torch.ones(4)), call(torch.ones(5))], backend="eager", diagnose="off")
    assert failed.value.report.calls[1].guard.startswith("tensor ")
