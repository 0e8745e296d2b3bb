"""Integer division that rounds towards zero when compiled, and down in eager."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    rounding = "trunc" if torch.compiler.is_compiling() else "floor"
    return torch.div(x, 2, rounding_mode=rounding)


def check(**options):
    return check_compile(target, torch.tensor([4, 3, -3]), backend="eager", **options)
