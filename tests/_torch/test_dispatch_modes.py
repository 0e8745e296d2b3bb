"""Eager runs under a dispatch mode: memory without values is filled, and higher-order ops run."""

from __future__ import annotations

import itertools
import os
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch._higher_order_ops.cond import cond
from torch.nn.attention.flex_attention import flex_attention

from pytest_torch_compile import CompileCheckFailed, call, check_compile
from pytest_torch_compile._torch.dispatch_mode import DispatchMode
from pytest_torch_compile._torch.filled_memory import FilledMemory
from pytest_torch_compile._torch.perturbed_rounding import PerturbedRounding
from pytest_torch_compile._torch.randomness import Recording, Replaying, Tape
from pytest_torch_compile._torch.widening import Widening


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_numbers_in_uninitialized_memory_differ_from_those_of_every_other_run(dtype):
    runs = []
    for _ in range(8):
        with FilledMemory():
            runs.append(torch.empty(64, dtype=dtype).to(torch.complex128).real)
    largest = torch.finfo(dtype).max
    assert all((run.abs() > largest / 1e4).all() for run in runs)
    for first, second in itertools.permutations(runs, 2):
        assert ((first - second).abs() > first.abs() / 2).all()


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool], ids=str)
def test_integers_are_filled_with_a_number_that_may_be_an_index(dtype):
    with FilledMemory():
        assert (torch.empty(64, dtype=dtype) == 1).all()


def test_every_op_that_allocates_without_a_value_is_filled():
    x = torch.zeros(3, 4)
    with FilledMemory():
        made = [
            torch.empty(3, 4),
            torch.empty_like(x),
            torch.empty_strided((3, 4), (1, 3)),
            torch.empty_permuted((3, 4), (1, 0)),
            x.new_empty(3, 4),
            x.new_empty_strided((3, 4), (1, 3)),
            torch.nn.Parameter(torch.empty(3, 4)),
        ]
    assert all((tensor.abs() > 1e30).all() for tensor in made)


class Seen(DispatchMode):
    """Record the names of all ops."""

    def __init__(self):
        super().__init__()
        self.names = []

    def call(self, func, args, kwargs):
        self.names.append(str(func))
        return func(*args, **kwargs)


class SeveralLayers(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout2d(), nn.Flatten(2), nn.Linear(36, 16)]
        self.layers = nn.Sequential(*layers, nn.LayerNorm(16), nn.Dropout())
        self.attention, self.lstm = nn.MultiheadAttention(16, 2, batch_first=True), nn.LSTM(16, 4)

    def forward(self, x):
        hidden = self.layers(x).double().float()
        attended = self.attention(hidden, hidden, hidden)[0]
        more = nn.functional.scaled_dot_product_attention(hidden, hidden, hidden)
        return self.lstm(attended)[0] + more[..., :4]


def test_modes_see_the_same_ops_in_inference_mode():
    model, x, names = SeveralLayers().requires_grad_(False), torch.randn(2, 3, 8, 8), {}
    for context in (torch.no_grad, torch.inference_mode):
        with context(), Seen() as seen:
            model(x)
        names[context] = seen.names
    assert "aten.addmm.default" in names[torch.no_grad]
    assert names[torch.inference_mode] == names[torch.no_grad]


def test_values_in_inference_mode_stay_the_same():
    model, x, outputs = SeveralLayers(), torch.randn(2, 3, 8, 8), []
    for mode in (nullcontext(), Seen()):
        torch.manual_seed(0)
        with torch.inference_mode(), mode:
            outputs.append(model(x))
    torch.testing.assert_close(*outputs)


def test_nested_tensors_run_in_inference_mode():
    x = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
    linear = nn.Linear(4, 4)
    with torch.inference_mode():
        expected = linear(x)
        with Seen() as seen:
            assert torch.equal(linear(x).to_padded_tensor(0.0), expected.to_padded_tensor(0.0))
    assert "aten.linear.default" in seen.names


@pytest.mark.parametrize("width", [64, 4096])
def test_inference_mode_perturbs_as_much_as_grad_mode(width):
    linear, x, size = nn.Linear(width, 64), torch.randn(32, width), {}
    exact = linear.double()(x.double())
    for context in (torch.no_grad, torch.inference_mode):
        with context(), PerturbedRounding(1):
            size[context] = float((linear.float()(x) - exact).norm())
    assert size[torch.inference_mode] == pytest.approx(size[torch.no_grad], rel=0.2)


def test_casts_are_widened_in_inference_mode():
    x = torch.full((3,), 1 / 3, dtype=torch.float64)
    with torch.inference_mode(), Widening():
        assert torch.equal(x.to(torch.float16), x) and torch.equal(x.half().float(), x)


def test_dropout_is_compared_in_inference_mode():
    model = nn.Sequential(nn.Linear(16, 64), nn.Dropout(), nn.Linear(64, 4)).train()
    calls = [call(torch.randn(8, 16)).under(torch.inference_mode)]
    report = check_compile(model, calls=calls, backend="aot_eager_decomp_partition")
    assert not any("float64" in line for line in report.observation.not_observable)
    with pytest.raises(CompileCheckFailed):
        check_compile(model, calls=calls, backend=lambda graph, _: lambda *args: [1.001 * y for y in graph(*args)])


def test_values_are_kept():
    with FilledMemory():
        x = torch.arange(4.0)
        assert torch.equal(torch.cat([x, torch.zeros(2), torch.ones(2)]), torch.tensor([0.0, 1, 2, 3, 0, 0, 1, 1]))
        assert torch.equal(x.clone().resize_(8)[:4], x)
        assert torch.equal(torch.add(x, 1, out=torch.empty(0)), x + 1)


def test_tensors_that_cannot_be_filled_are_left_alone():
    with FilledMemory():
        assert torch.empty(3, device="meta").is_meta
        assert torch.empty(3, 3, layout=torch.sparse_coo).is_sparse
        assert torch.empty(2, requires_grad=True).grad_fn is None


def attention(x):
    return flex_attention(x, x, x)


def branches(x):
    return cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


@pytest.mark.parametrize("function", [attention, branches])
@pytest.mark.parametrize(
    "mode", [FilledMemory, Widening, lambda: PerturbedRounding(1), lambda: Recording(Tape()), lambda: Replaying(Tape())]
)
def test_a_higher_order_op_runs(function, mode):
    x = torch.ones(1, 1, 16, 16)
    with torch.compiler.set_stance("force_eager"):
        with mode():
            result = function(x)
        torch.testing.assert_close(result, function(x))


def test_the_result_of_a_higher_order_op_is_perturbed():
    x = torch.ones(1, 1, 16, 16)
    with torch.compiler.set_stance("force_eager"), PerturbedRounding(1):
        result = branches(x)
    assert not torch.equal(result, x.sin())


def test_dropout_inside_a_higher_order_op_has_no_float64_reference():
    def target(x):
        dropped = cond(x.sum() > 0, lambda x: torch.nn.functional.dropout(x), lambda x: x.cos(), (x,))
        return dropped * (1 + 1e-3 if torch.compiler.is_compiling() else 1)

    with pytest.raises(CompileCheckFailed, match="the random numbers inside cond cannot be replayed") as failed:
        check_compile(target, torch.ones(400), backend="aot_eager", diagnose="off")
    assert [finding.kind for finding in failed.value.findings] == ["numerics"]


def test_code_that_no_mode_lets_run_is_repeated_without_a_mode(monkeypatch):
    def refuse(self, func, types, args=(), kwargs=None):
        raise NotImplementedError("not under this mode")

    monkeypatch.setattr(FilledMemory, "__torch_dispatch__", refuse)

    def target(x):
        return x.sin(), x + float(int.from_bytes(os.urandom(4), "big"))

    report = check_compile(target, torch.ones(400), backend="eager", fullgraph=False, max_graph_breaks=1)
    assert report.numerics.not_compared == ("output[1]",)
