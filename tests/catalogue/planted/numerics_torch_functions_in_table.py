"""A table of torch's own functions in a closure, from which compiled code takes another."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def check(**options):
    table = {"relu": functional.relu, "gelu": functional.gelu, "tanh": torch.tanh}

    def target(x):
        return table["tanh" if torch.compiler.is_compiling() else "gelu"](x) * 2

    return check_compile(target, torch.randn(8), backend="eager", **options)
