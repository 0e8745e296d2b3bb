"""An `array.array` of sizes seen, to which compiled code adds nothing."""

import array

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "sizes")]


def check(**options):
    sizes = array.array("l", [1, 2])

    def target(x):
        if not torch.compiler.is_compiling():
            sizes.append(4)
        return x.sin() * 2

    return check_compile(target, torch.randn(4), backend="eager", **options)
