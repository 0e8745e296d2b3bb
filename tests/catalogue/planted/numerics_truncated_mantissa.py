"""A backend that drops thirteen bits of the inputs of a product, as TF32 does."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def truncate(value):
    return (value.view(torch.int32) & ~0x1FFF).view(torch.float32)


def tf32(gm, example_inputs):
    return lambda x, w: (truncate(x) @ truncate(w),)


def target(x, w):
    return x @ w


def check(**options):
    return check_compile(target, torch.randn(64, 64), torch.randn(64, 64), backend=tf32, **options)
