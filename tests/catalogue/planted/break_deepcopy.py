"""The model copies an argument with `copy.deepcopy`."""

import copy

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "")]


def target(x, state):
    y = x.sin()
    (saved,) = copy.deepcopy(state)  # HERE
    return y * saved


def check(**options):
    return check_compile(target, torch.randn(4), [torch.ones(4)], backend="eager", **options)
