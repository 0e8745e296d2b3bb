"""A closure over a function whose result is a constant of the graph, read from a table it closes over itself."""

import torch

from pytest_torch_compile import check_compile

# torch 2.6 itself fails on every assume_constant_result.
constant = torch.compiler.assume_constant_result if torch.__version__ >= (2, 7) else torch.compiler.allow_in_graph


def check(**options):
    table = {"gelu": 1.702, "silu": 1.0}

    @constant
    def slope():
        return table["gelu"]

    def target(x):
        return x * torch.sigmoid(x * slope())

    return check_compile(target, torch.randn(8), backend="eager", **options)
