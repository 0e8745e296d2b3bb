"""A forward under a user's own decorator that checks its input and counts nothing."""

import functools

import torch
from torch import nn

from pytest_torch_compile import check_compile


def expects(rank):
    def decorate(method):
        @functools.wraps(method)
        def wrapper(self, x):
            if x.dim() != rank:
                raise ValueError(f"{method.__name__} takes {rank} dimensions, not {x.dim()}")
            return method(self, x)

        return wrapper

    return decorate


class Projection(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    @expects(rank=2)
    def forward(self, x):
        return self.linear(x).relu()


def check(**options):
    return check_compile(Projection(), torch.randn(2, 4), backend="eager", train=True, **options)
