"""A wrapper that calls `module.compile()` on a model that is off by three when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * (3 if torch.compiler.is_compiling() else 1)


def compiled(model):
    model.compile(backend="eager")
    return model


def check(**options):
    model = Model()
    try:
        return check_compile(model, torch.randn(2, 4), compile=compiled, **options)
    finally:
        assert model._compiled_call_impl is None
