"""A lazy layer that has seen no input: it is initialised in each run, and as lazy as before afterwards."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    report = check_compile(model, torch.randn(2, 3), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert isinstance(model[0], nn.LazyLinear) and nn.parameter.is_lazy(model[0].weight)
    return report
