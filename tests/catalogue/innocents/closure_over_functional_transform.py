"""Per-sample gradients: `vmap` of `grad` as a closed-over function."""

import torch
from torch.func import grad, vmap

from pytest_torch_compile import check_compile


def squared_error(weight, x, y):
    return ((x * weight).sum() - y).square()


def check(**options):
    per_sample = vmap(grad(squared_error), in_dims=(None, 0, 0))

    def target(weight, x, y):
        return per_sample(weight, x, y)

    return check_compile(target, torch.randn(4), torch.randn(3, 4), torch.randn(3), backend="eager", **options)
