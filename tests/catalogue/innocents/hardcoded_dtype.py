"""A model that casts to bf16 by itself, so that no fp64 copy of it can run."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 16))

    def forward(self, x):
        return (x.to(torch.bfloat16) @ self.weight.to(torch.bfloat16)).tanh()


def check(**options):
    return check_compile(Model(), torch.randn(8, 16), backend="aot_eager", **options)
