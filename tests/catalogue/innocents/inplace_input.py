"""An update of an input in place, and the input returned."""

import torch

from pytest_torch_compile import check_compile


def target(cache, x):
    cache[1:3].add_(x)
    return cache


def check(**options):
    return check_compile(target, torch.zeros(4), torch.ones(2), backend="aot_eager", **options)
