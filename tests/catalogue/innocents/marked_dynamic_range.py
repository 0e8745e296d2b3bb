"""A dimension marked dynamic with a range, in code that reads its size but fixes none."""

import torch

from pytest_torch_compile import check_compile


def target(x, weights):
    pooled = x.reshape(x.shape[0], -1, 2).mean(-1)
    return pooled @ weights / x.shape[0]


def check(**options):
    weights = torch.randn(4, 3)
    calls = [(torch.randn(batch, 8), weights) for batch in (4, 7, 30)]
    return check_compile(target, calls=calls, dynamic_dims={"x": {0: (2, 64)}}, backend="eager", **options)
