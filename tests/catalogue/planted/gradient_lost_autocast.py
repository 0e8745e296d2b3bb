"""Compiled code leaves the autocast region: products are in fp32, and so are the gradients' errors."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "dtype: eager torch.bfloat16, compiled torch.float32")]
ALSO = {"numerics", "gradient"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not torch.compiler.is_compiling()):
            return self.linear(x)


def check(**options):
    return check_compile(Model(), torch.randn(4, 16), backend="eager", train=True, **options)
