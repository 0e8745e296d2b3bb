"""Small real models on a backend that decomposes and reorders: no finding in an honest run, one in a wrong one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.numerics.legs import compare_legs


class Block(nn.Module):
    """Attention, normalisation, dropout and a feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out(self.norm(x))


class Convolutions(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8), nn.SiLU()
        )


def make(name: str, dtype: torch.dtype) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    module, x = (Block(), torch.randn(2, 8, 16)) if name == "block" else (Convolutions(), torch.randn(2, 3, 16, 16))
    return module.to(dtype), x.to(dtype)


@pytest.fixture(autouse=True)
def same_random_numbers():
    import torch._inductor.config

    with torch._inductor.config.patch(fallback_random=True):
        yield


def compiled(backend: str):
    torch._dynamo.reset()
    return lambda module: torch.compile(module, backend=backend, fullgraph=True)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["block", "convolutions"])
def test_no_finding(name, dtype, train):
    module, x = make(name, dtype)
    backend = compiled("aot_eager_decomp_partition")
    found = compare_legs(module.train(train), (x.requires_grad_(train),), backend, train=train)
    assert found.findings == []
    assert len(found.leaves) > 5


def changed(module: nn.Module, change) -> nn.Module:
    change(module)
    return module


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.norm, "eps", 1e-2),
        lambda m: m.out[0].weight.data.mul_(1.01),
        lambda m: m.norm.bias.data.add_(0.01),
        lambda m: setattr(m.out[2], "p", 0.3),
    ],
)
def test_a_wrong_constant_is_found(dtype, change):
    module, x = make("block", dtype)
    found = compare_legs(module.train(), (x.requires_grad_(),), lambda m: changed(m, change), train=True)
    assert {finding.kind for finding in found.findings} & {"numerics", "gradient"}
