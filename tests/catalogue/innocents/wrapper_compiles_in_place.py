"""A wrapper that calls `module.compile()` and hands the module back: the caller's is not compiled afterwards."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).tanh()


def compiled(model):
    model.compile(backend="aot_eager")
    return model


def check(**options):
    model = Model()
    report = check_compile(model, torch.randn(2, 4), compile=compiled, train=True, **options)
    assert model._compiled_call_impl is None
    return report
