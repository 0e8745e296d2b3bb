"""A list argument that receives an element: a cache that grows."""

import torch

from pytest_torch_compile import check_compile


def target(x, cache):
    y = x.sin()
    cache.append(y)
    return y * 2


def check(**options):
    return check_compile(target, torch.ones(4), [torch.zeros(4)], backend="eager", **options)
