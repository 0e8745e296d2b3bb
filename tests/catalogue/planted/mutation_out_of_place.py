"""An in-place update that turns into an out-of-place one when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "state")]


def target(x, state):
    if torch.compiler.is_compiling():
        state = state + x
    else:
        state.add_(x)
    return state * 2


def check(**options):
    return check_compile(target, torch.ones(4), torch.zeros(4), backend="eager", **options)
