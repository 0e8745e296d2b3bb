"""A partial that carries its statistics in a keyword: the compiled leg leaves the dict as it is."""

import functools

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "moments")]


def whiten(x, moments, momentum=0.1):
    mean = x.mean(0)
    if not torch.compiler.is_compiling():
        moments["mean"] = moments["mean"] * (1 - momentum) + mean * momentum
    return x - mean


def check(**options):
    target = functools.partial(whiten, moments={"mean": torch.zeros(4)})
    return check_compile(target, torch.randn(3, 4), backend="eager", **options)
