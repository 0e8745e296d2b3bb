"""A hook of the caller on a parameter that scales its gradient and counts, and stays registered."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model, seen = nn.Linear(4, 2), []

    def scale(grad):
        seen.append(1)
        return grad * 0.5

    handle = model.weight.register_hook(scale)
    report = check_compile(model, torch.randn(3, 4), train=True, backend="aot_eager", **options)
    assert seen == [] and handle.id in model.weight._backward_hooks and model.weight.grad is None
    return report
