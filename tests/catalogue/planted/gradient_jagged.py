"""A jagged nested tensor in training: the gradient of the weight is halved when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "weight")]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        return y * 0.5 + (y * 0.5).detach() if torch.compiler.is_compiling() else y


def loss(y):
    return y.values().square().sum()


def check(**options):
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return check_compile(Layer(), x, train=loss, max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
