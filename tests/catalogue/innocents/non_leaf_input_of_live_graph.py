"""Inputs and weights in a graph of the caller, whose backward runs after the check."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    x = first(torch.randn(2, 4))
    loss = second(x).square().mean()
    report = check_compile(second, x, train=True, backend="aot_eager", **options)
    assert first.weight.grad is None and second.weight.grad is None
    loss.backward()
    assert first.weight.grad is not None and second.weight.grad is not None
    return report
