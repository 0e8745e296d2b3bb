"""A wrong constant in a suite that runs with `-W error`: the finding is the constant, not a warning of torch's."""

import warnings

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    eps = 1e-2 if torch.compiler.is_compiling() else 1e-6
    return x / (x.norm() + eps)


def check(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check_compile(target, torch.randn(4), backend="aot_eager", **options)
