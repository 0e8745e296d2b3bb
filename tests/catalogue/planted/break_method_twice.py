"""A method of a submodule that breaks is called from two lines, by another name than forward."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "of 2, 1 allowed")]


class Quantizer(nn.Module):
    def scale_of(self, x):
        torch._dynamo.graph_break()  # HERE, met from two lines of Model.forward
        return x.abs().amax() / 127

    def forward(self, x):
        return (x / self.scale_of(x)).round()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.quantizer = Quantizer()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        w = self.weight / self.quantizer.scale_of(self.weight)
        x = x / self.quantizer.scale_of(x)
        return x @ w


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", max_graph_breaks=1, max_recompiles=8, **options)
