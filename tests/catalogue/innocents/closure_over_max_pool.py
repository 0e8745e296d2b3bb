"""A pooling head that closes over two of torch's own functions with closures, chosen by name."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile

POOLS = {"fixed": functional.max_pool1d, "adaptive": functional.adaptive_max_pool1d}


def make_head(name):
    pool = POOLS[name]

    def head(x):
        return pool(x, 2).flatten(1)

    return head


def check(**options):
    return check_compile(make_head("adaptive"), torch.randn(2, 3, 8), backend="eager", **options)
