"""The stand-ins decide and compute as torch does: gradients like its engine, attention's kernel by its rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from pytest_torch_compile._torch.planning import attention, engine
from tests.plan.record import tensors
from tests.plan.recorded_cases import Recurrent, Residual


def _encoder() -> tuple[nn.Module, torch.Tensor]:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), torch.randn(2, 5, 16)


def _lstm() -> tuple[Callable[..., Any], torch.Tensor]:
    lstm = nn.LSTM(8, 4, 2, batch_first=True)
    return (lambda x: lstm(x)[0]), torch.randn(2, 5, 8)


class _Pieces(nn.Module):
    """Several outputs of one op, some unused, broadcasts, a mix of dtypes, and a leaf that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, _ = x.chunk(3)
        rows = (first * self.weight.float()).unbind(0)
        top, _ = second.topk(3, dim=-1)
        return rows[0].sum() + (rows[-1] * self.weight).prod() + top.logsumexp(-1).mean() + x.sort(-1)[0][0].std()


CASES: dict[str, Callable[[], tuple[Any, torch.Tensor]]] = {
    "encoder layer": _encoder,
    "convolutions with batch norm": lambda: (Residual(), torch.randn(2, 32, 6, 6)),
    "steps of a recurrent cell": lambda: (Recurrent(), torch.randn(2, 3, 64)),
    "LSTM": _lstm,
    "pieces": lambda: (_Pieces(), torch.randn(6, 6)),
}


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_those_of_torchs_engine(name: str) -> None:
    model, x = CASES[name]()
    leaves = [x.requires_grad_(), *(model.parameters() if isinstance(model, nn.Module) else ())]
    output = model(x)
    cotangent = torch.randn_like(output)
    expected = torch.autograd.grad(output, leaves, cotangent, retain_graph=True, allow_unused=True)
    actual = engine.grad(output, leaves, cotangent, retain_graph=True)
    assert all(torch.equal(one, other) for one, other in zip(expected, actual, strict=True) if one is not None)
    assert [one is None for one in expected] == [one is None for one in actual]


def test_backward_adds_to_the_gradients_of_leaves() -> None:
    x, unused = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    for _ in range(2):
        engine.backward((x * 2).sum() + x.exp().sum())
    assert torch.equal(x.grad, 2 * (2 + x.detach().exp())) and unused.grad is None


def test_gradients_of_an_inner_tensor_and_of_gradients() -> None:
    x = torch.randn(3, requires_grad=True)
    inner = x.sin()
    output = inner.pow(3).sum()
    assert torch.equal(engine.grad(output, [inner], retain_graph=True)[0], 3 * inner.detach() ** 2)
    (first,) = engine.grad(output, [x], create_graph=True)
    second = engine.grad(first.sum(), [x])[0]
    expected = torch.autograd.grad(torch.autograd.grad(x.sin().pow(3).sum(), x, create_graph=True)[0].sum(), x)
    assert torch.equal(second, expected[0])


def test_an_input_that_is_not_used_has_no_gradient_or_zeros() -> None:
    x, unused = torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True)
    assert engine.grad(x.sum(), [unused], retain_graph=True) == (None,)
    assert torch.equal(engine.grad(x.sum(), [unused], materialize_grads=True)[0], torch.zeros(2))


H100, A100, L4 = (9, 0), (8, 0), (8, 9)
POINT: dict[str, Any] = {
    "dtype": "bfloat16",
    "head": 64,
    "lengths": (64, 64),
    "kv_heads": 4,
    "mask": "",
    "dropout": 0.0,
    "grad": False,
    "layout": "transposed",
}


@pytest.mark.parametrize(
    ("capability", "change", "kernel"),
    [
        (H100, {}, attention.CUDNN),
        (H100, {"mask": "boolean"}, attention.CUDNN),
        (H100, {"mask": "additive", "grad": True}, attention.CUDNN),
        (H100, {"mask": "expanded"}, attention.MATH),
        (H100, {"dtype": "float32"}, attention.EFFICIENT),
        (H100, {"dtype": "float32", "kv_heads": 2}, attention.MATH),
        (H100, {"head": 160}, attention.CUDNN),
        (A100, {"head": 160}, attention.FLASH),
        (H100, {"head": 20}, attention.FLASH),
        (H100, {"head": 20, "mask": "boolean"}, attention.MATH),
        (H100, {"lengths": (64, 1)}, attention.FLASH),
        (H100, {"layout": "strided"}, attention.MATH),
        (A100, {}, attention.FLASH),
        (A100, {"mask": "boolean"}, attention.EFFICIENT),
        (A100, {"mask": "causal", "lengths": (100, 60)}, attention.EFFICIENT),
        (A100, {"head": 264}, attention.EFFICIENT),
        (L4, {"head": 200, "grad": True}, attention.EFFICIENT),
        (L4, {"head": 200}, attention.FLASH),
    ],
)
def test_attention_uses_the_kernel_of_torchs_rules(
    capability: tuple[int, int], change: dict[str, Any], kernel: str
) -> None:
    inputs = tensors(**{**POINT, **change}, device="meta")
    assert attention.kernel_of(attention.Inputs(*inputs, capability)) == kernel
