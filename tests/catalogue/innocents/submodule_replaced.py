"""An activation that both replace by another; the caller has the first one."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    @torch.compiler.disable
    def swap(self):
        self.act = nn.Tanh()

    def forward(self, x):
        y = self.act(x) * 2 + 1
        self.swap()
        return y


def check(**options):
    model = Model()
    act = model.act
    report = check_compile(model, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.act is act and list(model.children()) == [act]
    return report
