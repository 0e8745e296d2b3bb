"""Training with gradients of an earlier step: compiled code doubles them before it adds its own."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient|nothing-compiled|compile-error", "")]
ALSO = {"state", "mutation", "exception"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        if torch.compiler.is_compiling():
            self.weight.grad.mul_(2)
        return x * self.weight


def check(**options):
    model = Model()
    model(torch.ones(4)).sum().backward() if model.weight.grad is not None else model.weight.sum().backward()
    return check_compile(
        model, torch.randn(4), train=True, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
