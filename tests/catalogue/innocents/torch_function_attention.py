"""Fused attention, a built-in function of torch, as the target."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile


def check(**options):
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    target = functional.scaled_dot_product_attention
    return check_compile(target, q, k, v, is_causal=True, backend="eager", **options)
