"""check_invariance: a row alone, a second run and a fresh process give what the first run gave."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from pytest_torch_compile import CompileCheckFailed, CompileUsageError, Tolerance, call, check_invariance

PARENT = os.getpid()
# A fresh process inherits it, so that both can be told apart.
os.environ.setdefault("TESTS_FIRST_PROCESS", str(PARENT))


class Block(torch.nn.Module):
    """Two layers and what stands between them."""

    def __init__(self, between):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.between = between
        self.last = torch.nn.Linear(4, 4)

    def forward(self, x):
        return {"y": self.last(self.between(self.first(x)))}


class MeanOverBatch(torch.nn.Module):
    def forward(self, x):
        return x - x.mean(0, keepdim=True)


class ScaleBySize(torch.nn.Module):
    def forward(self, x):
        return x * (1 + 1e-4 * x.shape[0])


class Attends(torch.nn.Module):
    """Rows see each other."""

    def forward(self, x):
        return torch.softmax(x @ x.t(), -1) @ x


class NormaliseInTraining(torch.nn.BatchNorm1d):
    def __init__(self):
        super().__init__(4)


class QuantiseByMax(torch.nn.Module):
    def forward(self, x):
        scale = x.abs().max() / 127
        return (x / scale).round() * scale


RUN = iter(range(10**9))


@torch.library.custom_op("invariance::counts", mutates_args=())
def counts(x: torch.Tensor) -> torch.Tensor:
    return x + next(RUN)


@torch.library.custom_op("invariance::process", mutates_args=())
def process(x: torch.Tensor) -> torch.Tensor:
    return x + (os.environ["TESTS_FIRST_PROCESS"] != str(os.getpid()))


for op in (counts, process):
    op.register_fake(torch.empty_like)


class Op(torch.nn.Module):
    def __init__(self, op):
        super().__init__()
        self.name = op._opoverload._name.split("::")[1]

    def forward(self, x):
        return getattr(torch.ops.invariance, self.name)(x)


PLANTED = {
    "a mean over the batch": ("batch", MeanOverBatch, "between (MeanOverBatch)"),
    "a scale by the size of the batch": ("batch", ScaleBySize, "between (ScaleBySize)"),
    "attention over the batch": ("batch", Attends, "between (Attends)"),
    "one scale for the whole batch": ("batch", QuantiseByMax, "between (QuantiseByMax)"),
    "something that counts its runs": ("run", lambda: Op(counts), "between (Op)"),
    "something of the process": ("process", lambda: Op(process), "between (Op)"),
}


# Without compilation, both runs of "process" are in the same fresh process.
@pytest.mark.parametrize(
    ("name", "compiled"),
    [
        pytest.param(name, compiled, id=f"{name}-{'compiled' if compiled else 'eager'}")
        for name, (way, _, _) in PLANTED.items()
        for compiled in (True, False)
        if compiled or way != "process"
    ],
)
def test_what_depends_on_it_is_found_with_the_first_module(name, compiled):
    way, make, module = PLANTED[name]
    with pytest.raises(CompileCheckFailed) as failed:
        # Products of other sizes may round in another way.
        rounding = {"tolerance": Tolerance(rtol=0.0, atol=1e-6), "compiled": compiled, "backend": "eager"}
        check_invariance(Block(make()), torch.randn(5, 4), over=(way,), **rounding)
    (finding,) = failed.value.findings
    assert finding.kind == "invariance" and finding.subject == "output['y']" and finding.measured > finding.limit
    assert f"first module that differs: {module}" in finding.evidence
    assert failed.value.report.results[0].module == module and not failed.value.report.results[0].equal
    assert ("the eager results also differ" in finding.evidence) == compiled


INNOCENT = {
    "a norm over features": (torch.nn.LayerNorm, (4,), {}),
    "batch norm in eval": (lambda: NormaliseInTraining().eval(), (), {}),
    "dropout in eval": (lambda: torch.nn.Dropout(0.5).eval(), (), {}),
    "dropout over runs": (torch.nn.Dropout, (0.5,), {"over": ("run",)}),
    "batch norm over runs, whose statistics move": (NormaliseInTraining, (), {"over": ("run",)}),
    "a small difference that is stated": (ScaleBySize, (), {"tolerance": Tolerance(rtol=0.0, atol=1e-1)}),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_innocents_pass(name):
    make, arguments, options = INNOCENT[name]
    options = {"over": ("batch", "run"), "backend": "eager", **options}
    model = Block(make(*arguments))
    model.first = model.last = torch.nn.Identity()  # products of other sizes may round in another way
    report = check_invariance(model, torch.randn(5, 4), **options)
    assert all(result.equal for result in report.results)


def test_a_fresh_process_gives_the_same():
    report = check_invariance(Block(torch.nn.GELU()), torch.randn(5, 4), over="process", backend="aot_eager")
    assert [(result.over, result.equal) for result in report.results] == [("process", True)]


def test_all_three_with_inductor():
    model = Block(torch.nn.GELU())
    report = check_invariance(model, torch.randn(5, 4), tolerance=Tolerance(rtol=1e-5, atol=1e-6))
    assert "invariance: batch: equal, run: equal, process: equal" in report.remarks


def test_the_batch_may_be_another_dimension():
    def last_state(x, lengths):
        return x.cumsum(0), lengths * 2

    report = check_invariance(
        last_state, torch.randn(3, 5), torch.arange(5), over="batch", batch_dims={"x": 1, "lengths": 0}, backend="eager"
    )
    assert report.results[0].equal


def test_an_output_without_rows_is_named():
    report = check_invariance(lambda x: (x * 2, x.sum()), torch.randn(3, 5), over="batch", backend="eager")
    assert "no batch dimension, so not compared row by row: output[1]" in report.remarks
    with pytest.raises(CompileCheckFailed, match="no output has a batch dimension") as failed:
        check_invariance(lambda x: x.sum(), torch.randn(3, 5), over="batch", backend="eager")
    assert failed.value.findings[0].kind == "not-observable"


def test_a_function_has_no_module_to_name():
    with pytest.raises(CompileCheckFailed, match="row on its own") as failed:
        check_invariance(lambda x: x - x.mean(), call(torch.randn(3, 5)), over="batch", backend="eager")
    assert "module" not in failed.value.findings[0].evidence


def test_mistakes_are_named():
    with pytest.raises(CompileUsageError, match="checks a single call, but 2 were passed"):
        check_invariance(torch.sin, call(torch.ones(2, 2)), call(torch.ones(2, 2)))
    with pytest.raises(CompileUsageError, match="over='rows' is unknown; choose one of: batch, run, process"):
        check_invariance(torch.sin, torch.randn(3), over="rows")
    with pytest.raises(CompileUsageError, match="requires a batch of at least two rows"):
        check_invariance(torch.sin, torch.randn(1, 3), over="batch")
    with pytest.raises(CompileUsageError, match="the call raises an exception in eager"):
        check_invariance(torch.linalg.inv, torch.randn(2, 3), over="run", backend="eager")
    with pytest.raises(CompileUsageError, match="batch_dims contains dimension 3 of 'x'"):
        check_invariance(lambda x: x, torch.randn(2, 3), batch_dims={"x": 3})


def test_what_cannot_be_compiled_is_a_finding():
    def breaks(x):
        return x * 2 if float(x.sum()) > 0 else x

    with pytest.raises(CompileCheckFailed) as failed:
        check_invariance(breaks, torch.randn(3, 5), over="run", backend="eager")
    assert failed.value.findings[0].kind in ("graph-break", "compile-error")


def test_a_fresh_process_is_in_the_modes_that_the_check_is_in():
    with torch.autocast("cpu", torch.bfloat16):
        report = check_invariance(Block(torch.nn.ReLU()), torch.randn(3, 4), over="process", backend="eager")
    assert report.results[0].equal


def centred(x):
    return x - x.mean(0)


def noisy(x):
    """Eager differs by a rounding: as if another kernel had been chosen for one row."""
    return x * (1 + 1e-7 * (x.shape[0] == 1))


@pytest.mark.parametrize(
    ("target", "compiled", "advised"),
    [
        (centred, True, "the code mixes the rows"),
        (centred, False, "the code mixes the rows"),
        (noisy, True, "tolerance="),
    ],
)
def test_fix_is_in_the_code_where_eager_differs_by_more_than_rounding(target, compiled, advised):
    with pytest.raises(CompileCheckFailed) as failure:
        check_invariance(target, torch.rand(4, 3) + 1, over="batch", compiled=compiled, backend="eager")
    (finding,) = failure.value.findings
    assert advised in finding.hint
    assert ("tolerance=" in finding.hint) == (target is noisy)


class Decorated(Block):
    """A module with a method that the class decorates with torch.compile."""

    def __init__(self):
        super().__init__(torch.nn.ReLU())

    @torch.compile(backend="eager")
    def step(self, x):
        return self.forward(x)


@pytest.mark.parametrize("which", ["module", "decorated method", "bound method"])
def test_compiled_target_is_checked_without_its_own_compilation(which):
    model = Decorated()
    target = {
        "module": torch.compile(model, backend="eager"),
        "decorated method": model.step,
        "bound method": torch.compile(model.forward, backend="eager"),
    }[which]
    report = check_invariance(target, torch.randn(3, 4), over=("run", "process"), backend="eager")
    assert [one.equal for one in report.results] == [True, True]


def test_values_that_look_alike_are_shown_with_more_digits():
    class AlmostOne(torch.nn.Module):
        def forward(self, x):
            return x + x.shape[0] * 2**-22

    with pytest.raises(CompileCheckFailed, match=r"is 1\.00000072, but 1\.00000024 in row 0"):
        check_invariance(AlmostOne(), torch.ones(3, 1), over=("batch",), backend="eager")


X = torch.arange(1.0, 25).reshape(6, 4)
unusual_tensors = pytest.mark.filterwarnings("ignore:.*(Sparse|quantize|nested tensors)")


@dataclass
class Result:
    y: torch.Tensor
    more: Any = None


@torch.library.custom_op("invariance::writes", mutates_args=("x",))
def writes(x: torch.Tensor) -> None:
    x.add_(next(RUN))


class ReturnsItsBuffer(torch.nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.write(self.total)
        return self.total, x * 2


def fails(target, *over, call=X):
    with pytest.raises(CompileCheckFailed) as failed:
        check_invariance(target, call.clone(), over=over, compiled=False)
    (finding,) = failed.value.findings
    return finding


def written(x):
    writes(x)
    return x


def array_of_process(x):
    return np.full(3, float(os.getpid()))


def number_of_process(x):
    return x * 2, {"process": os.getpid()}


def set_of_process(x):
    return Result(x * 2, {str(os.getpid())})


OF_SIZE = {
    "a number": (lambda x: (x * 2, float(x.shape[0])), "output[1]", "output[1] is 6, but 1 in row 0"),
    "a scalar of NumPy": (lambda x: (x * 2, np.int64(x.shape[0])), "output[1]", "output[1] is 6, but 1 in row 0"),
    "an array": (lambda x: (x * x.shape[0]).numpy(), "output", "output[0, 0] is 6, but 1 in row 0"),
    "text": (lambda x: Result(x, f"{len(x)} rows"), "output.more", "output.more is '6 rows', but '1 rows' in row 0"),
    "a list of rows": (lambda x: [row * len(x) for row in x], "output[0]", "output[0][0] is 6, but 1 in row 0"),
    "rows as numbers": (lambda x: (x.sum(1) * len(x)).tolist(), "output[0]", "output[0] is 60, but 10 in row 0"),
    "a nested tensor": (
        lambda x: torch.nested.nested_tensor([row * len(x) for row in x], layout=torch.jagged),
        "output[0]",
        "output[0][0] is 6, but 1 in row 0",
    ),
    "a sparse tensor": (lambda x: (x * len(x)).to_sparse(), "output", "output[0, 0] is 6, but 1 in row 0"),
    "keys": (lambda x: {f"row {n}": row for n, row in enumerate(x)}, "output", "output is dict (keys row 0, row 1"),
    "a large integer": (lambda x: (x * 0).long() + 2**53 + (len(x) == 1), "output", "; 1 of 4 elements differ"),
}


@unusual_tensors
@pytest.mark.parametrize("name", OF_SIZE)
def test_every_kind_of_output_that_depends_on_the_size_of_the_batch_is_found(name):
    target, path, text = OF_SIZE[name]
    finding = fails(target, "batch", call=torch.stack([X[0]] * 6))
    assert finding.kind == "invariance" and finding.subject == path
    assert text in finding.evidence


@pytest.mark.parametrize(
    ("target", "way", "path"),
    [
        (array_of_process, "process", "output"),
        (number_of_process, "process", "output[1]['process']"),
        (set_of_process, "process", "output.more"),
        (written, "run", "output"),
        (ReturnsItsBuffer(writes), "run", "output[0]"),
        (lambda x: (x, next(RUN)), "run", "output[1]"),
    ],
)
def test_outputs_that_are_no_new_tensors_are_compared(target, way, path):
    finding = fails(target, way)
    assert finding.kind == "invariance" and finding.subject == path


def detections(x):
    return [{"box": row * 2, "score": float(row.sum()), "label": "cat"} for row in x]


def sparse(x):
    return torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (6, 4)), x.to_sparse(), (x * 2).to_sparse_csr()


def unusual(x):
    quantised = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    number = {"nan": float("nan"), "large": 2**70, "text": np.array(["a"]), "size": torch.Size([3])}
    return quantised, torch.complex(x, x).conj(), x.to(torch.float8_e4m3fn), x[:, :0], x.half(), number, Result(x), open


INNOCENT_OUTPUTS = {
    "a list of rows": detections,
    "rows as numbers": lambda x: x.sum(1).tolist(),
    "sparse tensors": sparse,
    "unusual values": unusual,
    "a nested tensor": lambda x: torch.nested.nested_tensor(list(x * 2)),
    "an argument that was written": lambda x: x.add_(1),
    "a buffer that was written": ReturnsItsBuffer(lambda buffer: buffer.add_(1)),
}


@unusual_tensors
@pytest.mark.parametrize("name", INNOCENT_OUTPUTS)
def test_every_kind_of_output_may_be_equal(name):
    check_invariance(INNOCENT_OUTPUTS[name], X.clone(), over=("batch", "run"), compiled=False)


@unusual_tensors
@pytest.mark.parametrize("target", [detections, sparse, unusual])
def test_every_kind_of_output_comes_back_from_a_fresh_process(target):
    check_invariance(target, X, over="process", compiled=False)


@pytest.mark.parametrize(
    ("target", "way", "returned"),
    [
        (lambda x: None, "run", ""),
        (lambda x: x[:, :0], "run", ""),
        (lambda x: (row for row in x), "run", "output (generator)"),
        (lambda x: x.to("meta"), "run", "output (a tensor on the meta device)"),
    ],
)
def test_target_that_returns_nothing_to_compare_cannot_pass(target, way, returned):
    finding = fails(target, way)
    assert finding.kind == "not-observable" and "returns no value that can be compared" in finding.message
    assert returned in finding.evidence


@pytest.mark.parametrize(
    "target", [lambda x: x[:3] * 2, lambda x: x[x > 3], lambda x: torch.cat([x, x]), lambda x: 3, lambda x: x[:, :0]]
)
def test_output_whose_size_is_not_that_of_the_batch_has_no_rows(target):
    assert "no output has a batch dimension" in fails(target, "batch").message


def test_numbers_may_differ_by_the_tolerance():
    def target(x):
        return x * 2, 5 + 0.01 * len(x), 100 + len(x), complex(len(x))

    check_invariance(target, X, over="batch", compiled=False, tolerance=Tolerance(rtol=0.0, atol=5.0))
    with pytest.raises(CompileCheckFailed) as failed:
        check_invariance(target, X, over="batch", compiled=False, tolerance=Tolerance(rtol=0.0, atol=4.5))
    assert failed.value.findings[0].measured == 5.0


class Size(torch.nn.Module):
    def forward(self, x):
        return x.shape[0]


class ReturnsSize(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.size = Size()

    def forward(self, x):
        return x * 2, self.size(x)


def test_module_that_returns_another_number_is_named():
    with pytest.raises(CompileCheckFailed) as failed:
        check_invariance(ReturnsSize(), X, over="batch", backend="eager")
    assert failed.value.report.results[0].module == "size (Size)"


@torch.compiler.disable
def not_compiled(x):
    return x + 1


def calls_what_is_not_compiled(x):
    return not_compiled(x)


def test_code_that_is_not_compiled_cannot_pass():
    options = {"over": ("batch", "run"), "backend": "aot_eager"}
    with pytest.raises(CompileCheckFailed) as failed:
        check_invariance(calls_what_is_not_compiled, X, fullgraph=False, **options)
    assert [finding.kind for finding in failed.value.findings] == ["nothing-compiled"]
    with torch.compiler.set_stance("force_eager"), pytest.raises(CompileCheckFailed, match="stance"):
        check_invariance(torch.nn.ReLU(), X, **options)
    check_invariance(lambda x: not_compiled(x * 2), X, fullgraph=False, **options)


def test_code_whose_compilation_fails_and_that_runs_in_eager_cannot_pass():
    def backend(graph, inputs):
        raise ValueError("no")

    with torch._dynamo.config.patch(suppress_errors=True), pytest.raises(CompileCheckFailed) as failed:
        check_invariance(torch.nn.ReLU(), X, over="run", backend=backend, fullgraph=False)
    assert {finding.kind for finding in failed.value.findings} == {"eager-fallback"}


IS_FIRST_PROCESS = os.environ["TESTS_FIRST_PROCESS"] == str(PARENT)


def compiled_in_the_first_process(x):
    return x + 1 if IS_FIRST_PROCESS else not_compiled(x)


def test_fresh_process_that_does_not_compile_cannot_pass():
    with pytest.raises(CompileCheckFailed, match="in the fresh process, no graph") as failed:
        check_invariance(compiled_in_the_first_process, X, over="process", backend="aot_eager", fullgraph=False)
    assert failed.value.findings[0].kind == "nothing-compiled"


def test_code_from_the_compile_cache_is_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        check_invariance(torch.nn.ReLU(), X, over="run")


def test_actions_before_the_call_apply_to_every_run():
    target = call(X).before(lambda model: model.eval())
    model = torch.nn.Dropout(0.5)
    check_invariance(model, target, backend="aot_eager")
    assert model.training


def batched(x, result):
    return x + result.y


def test_call_that_cannot_be_checked_is_named():
    with pytest.raises(CompileUsageError, match="over is empty; choose at least one of: batch, run, process"):
        check_invariance(torch.sin, X, over=())
    with pytest.raises(CompileUsageError, match=r"remove raises\(...\) from the call"):
        check_invariance(torch.sin, call(X).raises(KeyError))
    with pytest.raises(CompileUsageError, match=r"cannot take a single row of result\.y"):
        check_invariance(batched, X, Result(X), over="batch", compiled=False)
