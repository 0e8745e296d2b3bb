"""Scaled dot product attention with a mask and a softmax over minus infinity."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile


def target(q, k, v):
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def check(**options):
    q, k, v = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
    return check_compile(target, q, k, v, backend="aot_eager", train=True, **options)
