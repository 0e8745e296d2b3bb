"""A closure over a function of the user's that goes into the graph whole."""

import torch

from pytest_torch_compile import check_compile


def check(**options):
    slope = 0.1

    @torch.compiler.allow_in_graph
    def leaky(x):
        return torch.where(x > 0, x, x * slope)

    def target(x):
        return leaky(x) * 2

    return check_compile(target, torch.randn(8), backend="eager", **options)
