"""One list that is passed as two arguments, and written to through one of them."""

import torch

from pytest_torch_compile import check_compile


def target(states, view):
    states[0].add_(1)
    return view[0] * 2


def check(**options):
    states = [torch.zeros(4)]
    return check_compile(target, states, states, backend="eager", **options)
