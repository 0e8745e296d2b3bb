"""Scratch memory in a plain attribute, allocated by the first call and written in part only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Workspace(nn.Module):
    def __init__(self):
        super().__init__()
        self.scratch = None

    def forward(self, x):
        self.scratch = torch.empty(1 << 14)
        self.scratch[: x.numel()] = x.flatten() * 2
        return self.scratch[: x.numel()].view_as(x) + 1


def check(**options):
    dirt = [torch.full((1 << 14,), float(value)) for value in range(1, 5)]
    del dirt
    return check_compile(Workspace(), torch.randn(3, 4), backend="eager", **options)
