"""A Python warning raised in the hot path."""

import warnings

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "warn")]


def target(x):
    y = x.sin()
    warnings.warn("deprecated", stacklevel=2)  # HERE
    return y * 2


def check(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_compile(target, torch.randn(4), backend="eager", **options)
