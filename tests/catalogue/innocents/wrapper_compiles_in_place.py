"""A wrapper that calls `module.compile()` and hands the module back: the caller's is not compiled afterwards."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def compiled(model):
    model.compile(backend="aot_eager")
    return model


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    report = check_compile(model, torch.randn(2, 4), compile=compiled, train=True, **options)
    assert model._compiled_call_impl is None
    return report
