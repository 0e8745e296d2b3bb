"""A wrong gradient under a default device that is not the model's: the check's own tensors must not follow it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "weight")]


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, device="cpu"))

    def forward(self, x):
        weight = self.weight
        if torch.compiler.is_compiling():
            weight = weight.detach() + (weight - weight.detach()) * 0.5
        return x * weight


def check(**options):
    model, x = Gate(), torch.randn(3, 4, device="cpu")
    torch.set_default_device("meta")
    try:
        return check_compile(model, x, train=True, backend="aot_eager", **options)
    finally:
        torch.set_default_device(None)
