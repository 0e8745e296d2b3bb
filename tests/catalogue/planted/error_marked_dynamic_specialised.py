"""A dimension is marked dynamic that the code fixes by comparing it: torch's key sentence reaches the reader whole."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

# torch 2.6 says "was inferred", later ones "your code specialized it".
EXPECT = [("compile-error", "to be a constant (3)")]


class Heads(nn.Module):
    def forward(self, x):
        if x.shape[0] == 3:
            x = x * 2
        return x.softmax(-1)


def check(**options):
    return check_compile(Heads(), torch.randn(3, 4), dynamic_dims={"x": 0}, backend="eager", **options)
