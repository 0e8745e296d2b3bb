"""Uninitialised memory as an output: an allocation helper, whose values mean nothing."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.sin(), torch.empty(1 << 16), torch.empty_like(x)


def check(**options):
    dirt = [torch.full((1 << 16,), float(value)) for value in range(1, 5)]
    del dirt
    return check_compile(target, torch.randn(4096), backend="eager", **options)
