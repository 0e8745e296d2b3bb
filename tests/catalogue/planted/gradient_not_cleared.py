"""A function that clears the gradients after it used them; compiled code leaves them for the next step."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient|state|mutation", "")]


class Flush(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        y = x + self.weight.grad
        if not torch.compiler.is_compiling():
            self.weight.grad = None
        return y


def check(**options):
    model = Flush()
    model.weight.grad = torch.ones(4)
    return check_compile(model, torch.randn(4), backend="eager", **options)
