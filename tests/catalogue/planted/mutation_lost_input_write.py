"""A backend that runs on copies of its inputs: the write to the input is lost."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "cache")]


def copying(gm, example_inputs):
    return lambda *args: gm(*(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args))


def target(cache, x):
    cache.add_(x)
    return x * 2


def check(**options):
    return check_compile(target, torch.zeros(4), torch.ones(4), backend=copying, **options)
