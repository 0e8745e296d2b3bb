"""What checkpointing recomputes in the backward is not what the forward computed."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "grad of block.weight")]
ALSO = {"numerics"}


class Tilted(torch.autograd.Function):
    """Right in the forward; its gradient is that of another slope when it is compiled."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * (2.02 if torch.compiler.is_compiling() else 2.0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Linear(4, 4)

    def forward(self, x):
        return x + checkpoint(lambda y: Tilted.apply(self.block(y)).tanh(), x, use_reentrant=False)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", train=True, **options)
