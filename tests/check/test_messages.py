"""The full text of a failure, for each kind of finding, as people read it."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_torch_compile import CompileCheckFailed, call, check_compile, compile_guard  # noqa: E402
from pytest_torch_compile.budget import Budget  # noqa: E402
from pytest_torch_compile.check.describe import device_name  # noqa: E402
from pytest_torch_compile.check.judge import Conditions, judge  # noqa: E402
from pytest_torch_compile.findings import CallReport, CompileReport  # noqa: E402
from pytest_torch_compile.observation import Graph, Observation  # noqa: E402
from pytest_torch_compile.report.failure_text import failure_text  # noqa: E402

GOLDEN = Path(__file__).parents[1] / "golden"
_spec = importlib.util.spec_from_file_location("golden_targets", GOLDEN / "targets.py")
targets = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(targets)


def checked(*args, **options):
    with pytest.raises(CompileCheckFailed) as failure:
        check_compile(*args, **{"backend": "eager", **options})
    return str(failure.value)


def ramp(*shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape) / 10


def graph_break():
    return checked(targets.breaks_twice, ramp(4))


def recompile():
    return checked(targets.scaled, calls=[call(ramp(size)) for size in (4, 5, 6, 1)] + [call(ramp(6), flag="sum")])


def eager_fallback():
    names = [call(ramp(4), f"name {i}") for i in range(10)]
    return checked(targets.limits, calls=names, fullgraph=False, max_recompiles=20)


def swallowed_error():
    with torch._dynamo.config.patch(suppress_errors=True):
        return checked(targets.scaled, ramp(4), backend=targets.refuses, fullgraph=False)


def nothing_compiled():
    return checked(targets.no_op, ramp(4), fullgraph=False)


def compile_error():
    return checked(targets.scaled, ramp(4), backend=targets.refuses)


def numerics():
    return checked(targets.linear, ramp(4, 4), torch.eye(4), backend=targets.inexact)


def gradient():
    inputs = ramp(4, 4).requires_grad_(), torch.eye(4).requires_grad_()
    return checked(targets.linear, *inputs, backend=targets.wrong_gradient, train=lambda out: out.sum())


def mutation():
    return checked(targets.add_in_place, ramp(4), backend=targets.loses_writes)


def aliasing():
    return checked(targets.first_row, ramp(4, 4), backend=targets.copies_outputs)


def metadata():
    return checked(targets.transposed, ramp(2, 3), backend=targets.makes_contiguous)


def exception():
    return checked(targets.scaled, ramp(4), backend=targets.raises_when_run)


def cudagraph_skip():
    why = "skipping cudagraphs due to mutated inputs (1 instances)"
    seen = Observation(graphs=[Graph("scaled", ("torch.sin",))], cudagraph_skips=[why, why, "cpu device (x)"])
    found = judge(seen, Budget(), Conditions(cudagraphs=True, torch_limit=8))
    report = CompileReport("scaled", "fullgraph", "inductor (reduce-overhead)", torch.__version__, "cuda:0")
    report.calls = [CallReport("call 1", "x f32[4]", "compiled, 1 graph")]
    report.observation, report.findings = seen, found
    return failure_text(report)


def several_at_once():
    """Everything that is wrong is told together."""
    calls = [call(ramp(4, 4), torch.eye(4)), call(ramp(5, 4), torch.eye(4))]
    return checked(targets.linear, calls=calls, backend=targets.inexact)


def guarded_region():
    compiled = torch.compile(targets.breaks_twice, backend="eager")
    with pytest.raises(CompileCheckFailed) as failure, compile_guard(max_graph_breaks=1):
        compiled(ramp(4))
    torch._dynamo.reset()
    return str(failure.value)


CASES = [
    graph_break,
    recompile,
    eager_fallback,
    swallowed_error,
    nothing_compiled,
    compile_error,
    numerics,
    gradient,
    mutation,
    aliasing,
    metadata,
    exception,
    cudagraph_skip,
    several_at_once,
    guarded_region,
]


def normalised(text):
    text = text.replace(f"torch {torch.__version__}", "torch VERSION")
    text = re.sub(r"compiled in \d+\.\d s", "compiled in SECONDS s", text)
    # How far eager itself is from fp64 depends on the version and the machine.
    text = re.sub(r"limit \d\S* \(\S+x\)", "limit LIMIT (TIMESx)", text)
    text = re.sub(r"worst error \S+ times its limit", "worst error TIMES times its limit", text)
    text = re.sub(r"(?m)^     torch says: .*$", "     torch says: WORDS", text)
    return text.replace(f"{GOLDEN.parent.parent}{os.sep}", "") + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_message_reads_as_agreed(case):
    file = GOLDEN / f"{case.__name__}.txt"
    text = normalised(case())
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def test_report_of_a_check_that_passed_reads_well():
    calls = [call(ramp(size)) for size in (4, 5)]
    report = check_compile(targets.scaled, calls=calls, backend="eager", max_recompiles=1)
    lines = str(report).splitlines()
    assert re.match(r"scaled passed the torch.compile check \(backend eager, fullgraph mode, torch .*, cpu\)", lines[0])
    assert lines[2] == "Sequence" and "call 2" in lines[5] and "recompiled" in lines[5]
    assert lines[-1].startswith("Seen: 2 graphs, 4 ops, 0 graph breaks, 1 recompile")


def test_report_of_a_check_that_failed_is_its_message():
    with pytest.raises(CompileCheckFailed) as failed:
        check_compile(targets.breaks_twice, ramp(4), backend="eager")
    assert str(failed.value.report) == str(failed.value)


def test_every_golden_file_belongs_to_a_case():
    assert {file.stem for file in GOLDEN.glob("*.txt")} == {case.__name__ for case in CASES}


def test_device_of_a_target_without_parameters_and_arguments_is_that_of_its_state():
    weight = torch.nn.Parameter(torch.ones(2, device="meta"))
    assert device_name(torch.optim.SGD([weight]).step, call()) == "meta"
    assert device_name(torch.sin, call(torch.ones(2, device="meta"))) == "meta"
    assert device_name(torch.sin, call()) == "cpu"


def test_argument_without_a_name_is_called_by_its_position():
    class Product(torch.nn.Module):
        def forward(self, *factors):
            return factors[0] * factors[1] * (1.01 if torch.compiler.is_compiling() else 1)

    factors = [torch.ones(2, requires_grad=True) for _ in range(2)]
    with pytest.raises(CompileCheckFailed, match="call 1: grad of argument 0 differs"):
        check_compile(Product(), *factors, train=True, backend="eager")


def test_break_that_leaves_nothing_to_compile_is_named_with_its_reason():
    def target(x):
        torch._dynamo.graph_break()
        return 3

    with pytest.raises(CompileCheckFailed, match=r"torch breaks the graph at .* \(explicit graph break\), and no"):
        check_compile(target, torch.ones(3), backend="eager", max_graph_breaks=1)
