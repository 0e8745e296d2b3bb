"""`torch.compile(model)` does not change the model: its result is thrown away, and the region runs in eager."""

import torch
from torch import nn

from pytest_torch_compile import compile_guard

EXPECT = [("nothing-compiled", "")]


def check(**options):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    torch.compile(model, backend="eager")
    with compile_guard(name="predict") as seen:
        model(torch.randn(2, 4))
    return seen
