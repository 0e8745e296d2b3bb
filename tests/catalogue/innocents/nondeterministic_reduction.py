"""A scatter whose order of addition changes from run to run, in eager as well."""

import random

import torch

from pytest_torch_compile import check_compile


@torch.library.custom_op("innocent::shuffled_sum", mutates_args=())
def shuffled_sum(x: torch.Tensor) -> torch.Tensor:
    order = torch.tensor(random.SystemRandom().sample(range(len(x)), len(x)))
    return x[order].sum(0)


@shuffled_sum.register_fake
def _(x):
    return x.new_empty(x.shape[1:])


def target(x):
    return shuffled_sum(x) * 2


def check(**options):
    return check_compile(target, torch.randn(5000, 8) * 100, backend="eager", **options)
