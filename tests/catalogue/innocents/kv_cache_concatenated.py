"""A key and value cache in plain attributes that grows by concatenation over three decode steps."""

import torch
from torch import nn
from torch.nn import functional

from pytest_torch_compile import check_compile


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.cached = None

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.cached is not None:
            k, v = torch.cat([self.cached[0], k], dim=1), torch.cat([self.cached[1], v], dim=1)
        self.cached = (k, v)
        return functional.scaled_dot_product_attention(q, k, v)


@torch.no_grad()
def check(**options):
    model = Attention()
    calls = [(torch.randn(1, 1, 8),) for _ in range(3)]
    report = check_compile(model, calls=calls, backend="eager", max_recompiles=2, **options)
    assert model.cached is None
    return report
