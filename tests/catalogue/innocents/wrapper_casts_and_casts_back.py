"""A wrapper that casts the model to float64 and back before it compiles it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def compiled(model):
    return torch.compile(model.double().float(), backend="aot_eager")


def check(**options):
    model = nn.Linear(4, 4)
    weight, address = model.weight, model.weight.data_ptr()
    report = check_compile(model, torch.randn(2, 4), compile=compiled, train=True, **options)
    assert model.weight is weight and model.weight.data_ptr() == address
    return report
