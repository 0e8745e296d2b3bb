"""A jagged nested tensor under `train=True`: compiled code is off by a factor."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]
ALSO = {"gradient"}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * (3 if torch.compiler.is_compiling() else 1)


def check(**options):
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return check_compile(Layer(), x, train=True, max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
