"""A parameter that has a gradient already, which backward adds to."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Linear(4, 2)
    model(torch.randn(3, 4)).sum().backward()
    return check_compile(model, torch.randn(3, 4), backend="aot_eager", train=True, **options)
