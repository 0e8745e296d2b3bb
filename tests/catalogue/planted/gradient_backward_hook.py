"""A hook on the gradient of an activation that compiled code turns round."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        if torch.compiler.is_compiling():
            return y - 2 * y + 2 * y.detach()
        return y


def check(**options):
    return check_compile(Gated(), torch.randn(3, 4), train=True, backend="eager", **options)
