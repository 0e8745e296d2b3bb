"""A dimension that is marked dynamic, so that no batch size recompiles."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def forward(self, x):
        return x.sin() * 2


def check(**options):
    calls = [(torch.randn(batch, 4),) for batch in (3, 6, 9)]
    return check_compile(Model(), calls=calls, backend="eager", dynamic_dims={"x": [0]}, **options)
