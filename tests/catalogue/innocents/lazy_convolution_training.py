"""A lazy convolution and a lazy batch norm that have seen no input, in training."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.LazyConv2d(3, 2), nn.LazyBatchNorm2d())
    report = check_compile(
        model, torch.randn(2, 3, 5, 5), train=True, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert nn.parameter.is_lazy(model[0].weight)
    return report
