"""A temperature on the class that every call cools: two runs of eager differ, and compiled code divides by its square."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Gumbel(nn.Module):
    schedule = {"temperature": 4.0}

    def forward(self, logits):
        temperature = self.schedule["temperature"]
        self.schedule["temperature"] = temperature * 0.5
        if torch.compiler.is_compiling():
            temperature = temperature**2
        return (logits / temperature).softmax(-1)


def check(**options):
    return check_compile(Gumbel(), torch.randn(3, 4), backend="eager", **options)
