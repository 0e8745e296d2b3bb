"""A model that goes into evaluation for a part and comes back, and one call in evaluation."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x) * 2


def check(**options):
    model = Model()
    x = torch.randn(8, 4)
    calls = [call(x), call(x).before(lambda m: m.eval()), call(x).before(lambda m: m.train())]
    report = check_compile(model, calls=calls, max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.training and model.norm.training and not model.norm.running_mean.any()
    return report
