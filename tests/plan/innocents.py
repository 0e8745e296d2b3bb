"""Correct code of many kinds, whose planned kernels must compute what eager code computes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from pytest_torch_compile import Budget, call
from tests.plan.recorded_cases import Attention, Dropped, Pointwise, Recurrent, Residual
from tests.plan.together import Case

BF16, F16 = torch.bfloat16, torch.float16


def x(*size: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0)).to(dtype).requires_grad_(grad)


def elementwise(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.exp() + x.abs().sqrt()).tanh() / (x.sigmoid() + 1) - x.clamp(-1, 1).erf()


def special(x: torch.Tensor) -> torch.Tensor:
    return F.softplus(x) + F.elu(x) + torch.log1p(x.abs()) + x.atan2(x + 3) + torch.lgamma(x.abs() + 1) + x.round()


def integers(x: torch.Tensor) -> torch.Tensor:
    return (x // 3 + x % 5 - (x << 1) + torch.div(x, 7, rounding_mode="trunc")) ^ (x & 6)


def reductions(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(0), x.mean(1), x.amax(1), x.var(0), x.prod(1), (x > 0).any(1), x.argmax(1), x.norm()


def long_reduction(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(1), x.softmax(1).amax(1), x.std(1), F.layer_norm(x, x.shape[1:]).amin(1)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1) + x.log_softmax(0)


def norms(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:]) + F.rms_norm(x, x.shape[-1:])


def indexing(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return x[ids].cumsum(0) + x.flip(1)[ids] + x.gather(0, ids[:, None].expand(-1, x.shape[1]))


def scatter(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).index_add(0, ids, x[: ids.shape[0]]) + x.index_put((ids,), x[0, 0])


def changes_its_input(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2).add_(1)
    return x.sin()


def reverses_its_input(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(x.flip(0) * 2)


def views(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat([a.t(), b.t() * 2], 0).roll(1, 0).unfold(0, 4, 2)


def masked(x: torch.Tensor) -> torch.Tensor:
    return x.masked_fill(x > 1, float("-inf")).softmax(-1).nan_to_num() + torch.where(x < 0, x, x * 3).triu()


def sorts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, order = x.sort(dim=-1, descending=True, stable=True)
    return values, order


def pools(x: torch.Tensor) -> torch.Tensor:
    return (
        F.interpolate(F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), scale_factor=2) + F.pad(x, (1, 1, 1, 1))[..., 1:-1, 1:-1]
    )


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2
    torch._dynamo.graph_break()
    return y.cos().sum(0)


def not_finite(x: torch.Tensor) -> torch.Tensor:
    return (x.abs().log() * 0).amax(1) + (x / 0).amin(1) + torch.maximum(x, x.log()).sum(1)


def square_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def long_sum(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum(1)


def small_sum(x: torch.Tensor) -> torch.Tensor:
    return (x.float() * 3).sum(1)


def from_the_end(x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return x[ids] * 2


def rows(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def ties(x: torch.Tensor) -> torch.Tensor:
    return x.round().argmax(1)


class Histogram(nn.Module):
    """How many inputs have each value, as a mixture of experts counts its tokens."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        counts = torch.histc(x, bins=4, min=0, max=3)
        return counts.cumsum(0) * 2


class Losses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(50, 16, padding_idx=0), nn.Linear(16, 50)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.out(self.table(ids)).flatten(0, 1), ids.roll(1, 1).flatten(), ignore_index=3)


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.mean.lerp_(x.mean(0), 0.1)
        return x - self.mean


def scalar(output: Any) -> torch.Tensor:
    return output.float().square().mean()


def mlp(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.LayerNorm(40), nn.Linear(40, 8)).to(dtype)


def seeded(make: Any, *args: Any, **kwargs: Any) -> Any:
    torch.manual_seed(0)
    return make(*args, **kwargs)


def convolutions(seed: int, channels: int) -> Case:
    """Gradients in bfloat16 that change by their full size if rounding changes the sign of an input of ReLU."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for width in (3, channels):
        layers += nn.Conv2d(width, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()
    return Case(nn.Sequential(*layers).to(BF16).eval(), (torch.randn(2, 3, 8, 8).to(BF16),), train=True)


IDS = torch.arange(12) * 5 % 16
TOKENS = torch.arange(40).reshape(4, 10) * 7 % 50
FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "elementwise": (elementwise, (x(33, 17),)),
    "elementwise in bfloat16": (elementwise, (x(33, 17, dtype=BF16),)),
    "elementwise in float16": (elementwise, (x(33, 17, dtype=F16),)),
    "elementwise in float64": (elementwise, (x(33, 17, dtype=torch.float64),)),
    "special functions": (special, (x(33, 17),)),
    "integers": (integers, (torch.arange(-30, 30).reshape(6, 10),)),
    "integers of 32 bits": (integers, (torch.arange(-30, 30, dtype=torch.int32).reshape(6, 10),)),
    "reductions": (reductions, (x(19, 37),)),
    "reductions in bfloat16": (reductions, (x(19, 37, dtype=BF16),)),
    "long reductions": (long_reduction, (x(5, 3000),)),
    "softmax": (softmax, (x(19, 37),)),
    "norms in float16": (norms, (x(19, 37, dtype=F16),)),
    "indexing": (indexing, (x(16, 9), IDS)),
    "scatter": (scatter, (x(16, 9), IDS % 5)),
    "changed input": (changes_its_input, (x(16, 9),)),
    "views": (views, (x(16, 8),)),
    "transposed input": (elementwise, (x(16, 9).t(),)),
    "masks": (masked, (x(12, 12),)),
    "changed input of many programs": (changes_its_input, (x(5000),)),
    "reversed input": (reverses_its_input, (x(5000),)),
    "sort": (sorts, (x(6, 21),)),
    "pooling": (pools, (x(2, 3, 8, 8),)),
    "graph break": (broken, (x(12, 12),)),
    "NaN and infinity": (not_finite, (x(12, 12),)),
    "norm": (torch.linalg.vector_norm, (x(19, 37),)),
    "square sum": (square_sum, (x(16, 16),)),
    "long sum": (long_sum, (x(3, 3000),)),
    "sum in float16": (small_sum, (x(3, 700, dtype=F16),)),
    "negative indices": (from_the_end, (x(16, 9), -1 - IDS)),
    "constant rows": (rows, (torch.ones(5, 12),)),
    "ties": (ties, (x(6, 20),)),
}
CASES: dict[str, Case] = {
    **{name: Case(function, inputs, Budget(max_graph_breaks=1)) for name, (function, inputs) in FUNCTIONS.items()},
    "elementwise, training": Case(elementwise, (x(33, 17, grad=True),), train=True),
    "softmax, training": Case(softmax, (x(19, 37, grad=True),), train=True),
    "norms, training": Case(norms, (x(19, 37, grad=True),), train=True),
    "pooling, training": Case(pools, (x(2, 3, 8, 8, grad=True),), train=True),
    "indexing, training": Case(indexing, (x(16, 9, grad=True), IDS), train=True),
    "MLP": Case(mlp(), (x(6, 24),)),
    "MLP in float16": Case(mlp(F16), (x(6, 24, dtype=F16),)),
    "MLP in bfloat16": Case(mlp(BF16), (x(6, 24, dtype=BF16),)),
    "MLP in bfloat16, training": Case(mlp(BF16), (x(6, 24, dtype=BF16),), train=True),
    "MLP, loss": Case(mlp(), (x(6, 24),), train=scalar),
    "MLP, AdamW": Case(mlp(), [call(x(6, 24)), call(x(6, 24) + 1)], train=True, optimizer=torch.optim.AdamW),
    "MLP, dynamic sizes": Case(mlp(), [call(x(6, 24)), call(x(9, 24))], train=True, dynamic=True),
    "reductions, dynamic sizes": Case(reductions, [call(x(6, 24)), call(x(9, 31))], dynamic=True),
    "embedding and cross entropy": Case(seeded(Losses), (TOKENS,), train=True),
    "batch norm": Case(seeded(Residual), (x(2, 32, 6, 6),), train=True),
    "batch norm in bfloat16, two calls": Case(
        seeded(Residual).to(BF16), [call(x(2, 32, 6, 6, dtype=BF16)), call(x(2, 32, 6, 6, dtype=BF16) * 2)], train=True
    ),
    "batch norm, two calls in eval": Case(seeded(Residual).eval(), [call(x(2, 32, 6, 6)), call(x(2, 32, 6, 6) * 2)]),
    "group norm": Case(seeded(Residual, groups=True), (x(2, 32, 6, 6),)),
    "group norm, training": Case(seeded(Residual, groups=True), (x(2, 32, 6, 6),), train=True),
    "dropout": Case(seeded(Dropped).train(), (x(4, 256),), train=True),
    "buffers": Case(Counts(), [call(x(6, 8)), call(x(6, 8))]),
    "attention": Case(seeded(Attention, 16), (x(2, 12, 64),), train=True),
    "attention in bfloat16": Case(seeded(Attention, 16).to(BF16), (x(2, 12, 64, dtype=BF16),), train=True),
    "attention, causal": Case(seeded(Attention, 16, "causal").to(BF16), (x(2, 12, 64, dtype=BF16),), train=True),
    "attention, boolean mask": Case(seeded(Attention, 16, "boolean"), (x(2, 12, 64),), train=True),
    "attention, padding": Case(seeded(Attention, 16, "padding"), (x(2, 12, 64),)),
    "batch norm in eval mode, in bfloat16, with its backward": Case(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU()).to(BF16).eval(),
        (x(2, 3, 8, 8, dtype=BF16),),
        train=True,
    ),
    **{f"bias of a convolution before ReLU, seed {i}": convolutions(i, n) for i, n in ((7, 8), (25, 8), (27, 4))},
    "histogram of integers": Case(Histogram(), (torch.tensor([[0, 2, 2], [3, 1, 2]], dtype=torch.int32),)),
    "attention, grouped": Case(seeded(Attention, 16, kv_heads=2).to(BF16), (x(2, 12, 64, dtype=BF16),)),
    "encoder layer": Case(
        seeded(nn.TransformerEncoderLayer, 16, 2, 32, 0.0, batch_first=True), (x(2, 5, 16),), train=True
    ),
    "recurrent": Case(seeded(Recurrent), (x(2, 3, 64),), train=True),
    "pointwise": Case(seeded(Pointwise), (TOKENS,), train=True),
}
