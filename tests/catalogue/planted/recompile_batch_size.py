"""A second batch size: the automatic dynamic recompile counts as well."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "size")]


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    return check_compile(target, calls=[(torch.randn(4, 3),), (torch.randn(6, 3),)], backend="eager", **options)
