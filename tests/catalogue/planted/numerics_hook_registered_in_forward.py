"""A forward hook that eager registers in the first call doubles the second one."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]
ALSO = {"state"}


def double(module, args, output):
    return output * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        if not torch.compiler.is_compiling() and not self.linear._forward_hooks:
            self.linear.register_forward_hook(double)
        return y


def check(**options):
    return check_compile(
        Model(), calls=[torch.randn(2, 4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
