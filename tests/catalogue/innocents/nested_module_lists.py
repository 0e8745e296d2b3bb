"""Module lists in module dicts, looped over."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        heads = {"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)}
        self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(4, 4), nn.ReLU()]) for _ in range(3)])
        self.heads = nn.ModuleDict(heads)

    def forward(self, x):
        for layer in self.layers:
            for part in layer:
                x = part(x)
        return {name: head(x) for name, head in self.heads.items()}


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", train=True, **options)
