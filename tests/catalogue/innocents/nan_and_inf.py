"""NaN, inf and -inf that are legitimate, in the same places in both legs."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.log(), 1 / x, torch.where(x > 0, x, float("-inf"))


def check(**options):
    return check_compile(target, torch.tensor([-1.0, 0.0, 1.0, float("nan")]), backend="eager", **options)
