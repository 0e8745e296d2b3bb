"""Inputs that are transposed, strided and expanded."""

import torch

from pytest_torch_compile import check_compile


def target(a, b, c):
    return a + 1, b.sin(), c * 2


def check(**options):
    a = torch.randn(3, 4).t()
    b = torch.randn(8)[::2]
    c = torch.randn(1, 4).expand(3, 4)
    return check_compile(target, a, b, c, backend="aot_eager", **options)
