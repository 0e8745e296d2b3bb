"""An input that is not a leaf: the output of another layer."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def target(x):
    return x.sin() * 2


def check(**options):
    x = nn.Linear(4, 4)(torch.randn(2, 4))
    return check_compile(target, x, backend="aot_eager", train=True, **options)
