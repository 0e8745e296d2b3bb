"""Strings, numbers, a dtype and a shape beside a tensor."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.sin(), "logits", 0.5, 3, True, x.dtype, x.shape


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
