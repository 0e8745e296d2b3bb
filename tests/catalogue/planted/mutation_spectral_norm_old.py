"""Old-style spectral norm: a wrapper that compiles in eval mode stops the power iteration of the singular vector."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "weight_u")]
ALSO = {"numerics", "state"}


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.utils.spectral_norm(nn.Linear(4, 4))

    def forward(self, x):
        if torch.compiler.is_compiling():
            self.linear.training = False
        return self.linear(x)


def check(**options):
    return check_compile(Discriminator(), torch.randn(2, 4), backend="eager", **options)
