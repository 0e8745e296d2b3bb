"""Flags in a `bytearray` that both set."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.flags = bytearray(4)

    def forward(self, x):
        y = x.sin()
        self.flags[1] = 255
        return y * 2


def check(**options):
    model = Model()
    flags = model.flags
    report = check_compile(model, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.flags is flags and flags == bytearray(4)
    return report
