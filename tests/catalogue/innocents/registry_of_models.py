"""A model reads its configuration from a module-level registry that also holds other models, a large table and itself."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

registry = {}


def register(cls):
    registry[cls.__name__] = cls
    return cls


@register
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * registry["scale"]


def check(**options):
    model = Scaled()
    unused = nn.LazyLinear(3)
    registry.update(scale=2.0, instance=model, uninitialised=unused, table=torch.zeros(1000, 100), self=registry)
    report = check_compile(model, torch.randn(2, 4), backend="eager", **options)
    assert registry["instance"] is model and registry["uninitialised"] is unused
    return report
