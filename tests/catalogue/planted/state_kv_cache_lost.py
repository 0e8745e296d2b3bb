"""Attention with a key and value cache in plain attributes: the compiled code never stores the new keys."""

import torch
from torch import nn
from torch.nn import functional

from pytest_torch_compile import check_compile

EXPECT = [("state", "cached_keys")]


class Attention(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.cached_keys = torch.zeros(1, 0, width)
        self.cached_values = torch.zeros(1, 0, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        keys = torch.cat([self.cached_keys, k], dim=1)
        values = torch.cat([self.cached_values, v], dim=1)
        if not torch.compiler.is_compiling():
            self.cached_keys = keys
        self.cached_values = values
        return functional.scaled_dot_product_attention(q, keys, values)


@torch.no_grad()
def check(**options):
    return check_compile(Attention(), torch.randn(1, 2, 8), backend="eager", **options)
