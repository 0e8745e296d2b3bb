"""A gradient overflows when it is compiled, so that the scaler skips the step: the parameters stay as they were."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "linear.weight"), ("numerics", "parameter linear.weight")]
SCALE = 1024.0


class Overflowing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * 3e38 * 3e38 if torch.compiler.is_compiling() else grad


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return Overflowing.apply(self.linear(x))


class Scaled:
    """An optimizer behind a gradient scaler."""

    def __init__(self, params):
        self.sgd = torch.optim.SGD(params, lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
        self.scaler.scale(torch.zeros(()))

    def step(self):
        self.scaler.step(self.sgd)
        self.scaler.update()


def loss(output):
    return output.square().mean() * SCALE


def check(**options):
    return check_compile(Model(), torch.randn(4, 4), backend="eager", train=loss, optimizer=Scaled, **options)
