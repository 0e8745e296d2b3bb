"""An input that is the output of another layer: compiled code halves its gradient, which reaches the caller's layer."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


def target(x):
    y = x.sin()
    return y * 0.5 + (y * 0.5).detach() if torch.compiler.is_compiling() else y * 1.0


def check(**options):
    x = nn.Linear(4, 4)(torch.randn(2, 4))
    return check_compile(target, x, train=True, backend="eager", **options)
