"""A default device other than the CPU: what the plugin makes for itself is not put there, and nothing leaks."""

from __future__ import annotations

import ast
import queue
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import pytest_torch_compile  # noqa: E402
from pytest_torch_compile import (  # noqa: E402
    CompileCheckFailed,
    CompileUsageError,
    Tolerance,
    Tolerances,
    call,
    check_compile,
    compile_guard,
    measure_compile,
)
from pytest_torch_compile._torch.defaults import Defaults, defaults  # noqa: E402

SOURCES = Path(pytest_torch_compile.__file__).parent
NAMES = (
    "arange as_tensor asarray bartlett_window empty empty_strided eye full hann_window linspace logspace ones rand "
    "randint randn randperm range scalar_tensor sparse_coo_tensor tensor tril_indices triu_indices zeros Generator"
)
FACTORIES = set(NAMES.split())


@pytest.fixture
def elsewhere():
    """Tensors that name no device are made where they hold no numbers."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16, device="cpu")
        self.norm = torch.nn.BatchNorm1d(16, device="cpu")
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.dropout(self.norm(self.linear(x)).softmax(-1))


def ones(*size, **options):
    return torch.ones(*size, device="cpu", **options)


def off(by):
    """A backend whose outputs are off by a factor."""

    def backend(gm, inputs):
        return lambda *args: tuple(o * by if torch.is_floating_point(o) else o for o in gm(*args))

    return backend


@pytest.mark.usefixtures("elsewhere")
class TestUnderADefaultDevice:
    def test_training_with_dropout_and_an_optimizer(self):
        options = {"backend": "aot_eager", "steps": 2}
        report = check_compile(Model(), ones(8, 16), optimizer=lambda p: torch.optim.SGD(p, 0.1), **options)
        assert report.device == "cpu"

    def test_complex_outputs_go_backward(self):
        x = ones(4, dtype=torch.complex64, requires_grad=True)
        assert check_compile(lambda x: x * x, x, backend="eager", train=True).ok

    def test_python_and_numpy_numbers_are_compared(self):
        import numpy

        @torch.compiler.disable  # dynamo makes tensors of them, on the default device
        def numbers():
            return 0.25, 1j, numpy.float32(2), numpy.ones(3)

        target = lambda x: (x.sin(), numbers())  # noqa: E731
        assert check_compile(target, ones(4), backend="eager", max_graph_breaks=9).numerics.leaves == 6  # and x

    def test_quantised_outputs_are_compared(self):
        @torch.compiler.disable
        def quantised(x):
            return torch.quantize_per_tensor(x, 0.5, 0, torch.qint8)

        assert check_compile(lambda x: quantised(x.sin()), ones(4), backend="eager", max_graph_breaks=9).ok

    def test_fp64_and_other_roundings_judge(self):
        assert check_compile(Model().eval(), ones(8, 16), backend=off(1 + 1e-7)).numerics.leaves
        with pytest.raises(CompileCheckFailed) as failure:
            check_compile(Model().eval(), ones(8, 16), backend=off(1.01))
        assert [finding.kind for finding in failure.value.findings] == ["numerics"]
        assert failure.value.report.numerics.reference == "fp64"

    def test_given_tolerances_judge(self):
        loose = Tolerances(leaves={"output": Tolerance(rtol=0.1, atol=0.0)})
        assert check_compile(Model().eval(), ones(8, 16), backend=off(1.01), tolerances=loose).ok

    def test_random_model(self):
        assert check_compile(lambda x: x + torch.rand_like(x), ones(64), backend="aot_eager").ok

    def test_diagnosis_tries_its_advice(self):
        calls = [call(ones(4), n) for n in (2.0, 3.0, 4.0)]
        with pytest.raises(CompileCheckFailed) as failure:
            check_compile(lambda x, n: x * n, calls=calls, backend="eager", dynamic=False, diagnose="auto")
        assert any("as a tensor" in line for line in failure.value.report.diagnosis)

    def test_guard(self):
        torch._dynamo.reset()
        with compile_guard() as seen:
            torch.compile(lambda x: x.sin(), backend="eager")(ones(4))
        assert len(seen.graphs) == 1

    def test_measurement(self):
        sample = measure_compile(Model(), ones(8, 16), backend="eager", train=True, seconds=0.02)
        assert sample.wall.compiled > 0

    def test_default_device_is_as_before(self):
        check_compile(lambda x: x.sin(), ones(4), backend="eager")
        assert torch.get_default_device().type == "meta"

    def test_error_in_eager_names_it(self):
        with pytest.raises(
            CompileUsageError,
            match=r"(?s)raises an exception in eager.*likely cause: torch.set_default_device is 'meta'",
        ):
            check_compile(lambda x: (x + torch.ones(4)).tolist(), ones(4), backend="eager")


def test_error_in_eager_does_not_name_the_ordinary_default():
    def raises(x):
        raise RuntimeError("of the target")

    with pytest.raises(CompileUsageError) as failure:
        check_compile(raises, ones(4), backend="eager")
    assert "default device" not in str(failure.value)


SEEN = queue.SimpleQueue()  # of the standard library, so that no leg has one of its own


def leaves(model):
    SEEN.put(defaults())
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)


@pytest.mark.parametrize("before", [None, "cpu"])
def test_default_that_a_leg_leaves_behind_reaches_nobody(before):
    torch.set_default_device(before)
    try:
        calls = [call(ones(4)).before(leaves), call(ones(4)).before(leaves)]
        assert check_compile(lambda x: x.sin(), calls=calls, backend="eager").ok
        after = defaults()
        assert after == Defaults(torch.float32, None if before is None else torch.device("cpu"))
        assert torch.get_default_device().type == "cpu"
        # Each leg starts as the caller does, and finds in its second call what it did in its first.
        own = Defaults(torch.float64, torch.device("meta"))
        assert [SEEN.get_nowait() for _ in range(4)] == [after, own, after, own]
        assert SEEN.empty()
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("file", sorted(SOURCES.rglob("*.py")), ids=lambda file: file.relative_to(SOURCES).as_posix())
def test_every_tensor_that_the_plugin_makes_names_its_device(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        made, _, name = ast.unparse(node.func).rpartition(".") if isinstance(node, ast.Call) else ("", "", "")
        if made == "torch" and name in FACTORIES:
            named = any(keyword.arg == "device" for keyword in node.keywords)
            assert named or (name == "Generator" and node.args), f"line {node.lineno}"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("where", ["cpu", "cuda"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_cuda_as_the_default_device(where, backend):
    model, x = Model().to(where), ones(8, 16).to(where)
    torch.set_default_device("cuda")
    try:
        for train in (False, True):
            assert check_compile(model, x, backend=backend, train=train).device.startswith(where)
        with pytest.raises(CompileCheckFailed):
            check_compile(model.eval(), x, backend=off(1.01))
    finally:
        torch.set_default_device(None)
