"""An inference tensor as an argument that is written in eager only."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("mutation", "x")]


def target(x):
    y = x.sin() + 1
    if not torch.compiler.is_compiling():
        x.mul_(2)
    return y


def check(**options):
    with torch.inference_mode():
        x = torch.ones(4)
    return check_compile(target, calls=[call(x).under(torch.inference_mode)], backend="eager", **options)
