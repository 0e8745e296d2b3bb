"""A buffer that is not updated when compiled, checked inside `with torch.device("meta")`."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "mean")]


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.mean.lerp_(x.mean(0), 0.1)
        return x - x.mean(0)


def check(**options):
    model, x = Normalise(), torch.ones(3, 4)
    with torch.device("meta"):
        return check_compile(model, x, backend="eager", **options)
