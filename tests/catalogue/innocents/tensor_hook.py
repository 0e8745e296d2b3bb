"""A hook that scales a gradient, in both modes."""

import torch

from pytest_torch_compile import check_compile


def halve(grad):
    return grad / 2


def target(x):
    y = x.sin()
    if y.requires_grad:
        y.register_hook(halve)
    return y * 3


def check(**options):
    breaks = {"<2.9": 1, ">=2.9": 0}  # torch 2.6 and 2.8 break at hooks of tensors that the graph makes
    x = torch.randn(8, requires_grad=True)
    return check_compile(target, x, backend="eager", train=True, max_graph_breaks=breaks, **options)
