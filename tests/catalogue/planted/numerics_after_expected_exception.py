"""A call raises as expected in the middle of its writes, which compiled code does not do; the next call shows it."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("numerics|state|mutation", "")]
ALSO = {"numerics", "state", "mutation", "eager-fallback"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    @torch.compiler.disable
    def refuse(self, level):
        if level:
            raise ValueError("too much")

    def forward(self, x, level):
        if not torch.compiler.is_compiling():
            self.total.add_(x)
        y = self.total + x * 2
        self.refuse(level)
        return y


def check(**options):
    calls = [call(torch.ones(4), 1).raises(ValueError), call(torch.ones(4), 0)]
    return check_compile(Model(), calls=calls, max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
