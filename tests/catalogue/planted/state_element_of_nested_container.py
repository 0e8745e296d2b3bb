"""A per-layer cache, a list of dicts of tensors, of which compiled code forgets one layer's values."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "layer_cache")]


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.layer_cache = [{"k": torch.zeros(2, 4), "v": torch.zeros(2, 4)} for _ in range(3)]

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            x = layer(x)
            self.layer_cache[index]["k"].copy_(x)
            if index != 1 or not torch.compiler.is_compiling():
                self.layer_cache[index]["v"].copy_(x.tanh())
        return x * 1.0


@torch.no_grad()
def check(**options):
    return check_compile(Stack(), torch.randn(2, 4), backend="aot_eager", **options)
