"""A backend that sums a bf16 matrix product in another order, within rounding."""

import torch

from pytest_torch_compile import check_compile


def split_sum(gm, example_inputs):
    return lambda x, w: ((x.float() @ w.float()).to(torch.bfloat16),)


def target(x, w):
    return x @ w


def check(**options):
    x = torch.randn(16, 256, dtype=torch.bfloat16)
    w = torch.randn(256, 16, dtype=torch.bfloat16)
    return check_compile(target, x, w, backend=split_sum, **options)
