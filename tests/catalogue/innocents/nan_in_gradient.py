"""A gradient that is legitimately NaN: the square root at zero, masked."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return torch.where(x > 0, x.sqrt(), 0.0)


def check(**options):
    x = torch.tensor([0.0, 1.0, 4.0], requires_grad=True)
    return check_compile(target, x, backend="aot_eager", train=True, **options)
