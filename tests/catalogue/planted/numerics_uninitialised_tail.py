"""A buffer whose tail eager sets to zero, and compiled code leaves as it was allocated."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "output")]


def target(x):
    padded = torch.empty(1 << 14)
    padded[: x.numel()] = x.sin()
    if not torch.compiler.is_compiling():
        padded[x.numel() :] = 0
    return padded


def check(**options):
    dirt = [torch.full((1 << 14,), float(value)) for value in range(1, 9)]
    del dirt
    return check_compile(target, torch.randn(4096), backend="eager", **options)
