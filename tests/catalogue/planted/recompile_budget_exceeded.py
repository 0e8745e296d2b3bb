"""Two recompiles where the budget allows one."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "2 recompiles, 1 allowed")]


def target(x, kind):  # HERE
    return x.sin() if kind == "a" else x.cos()


def check(**options):
    x = torch.randn(4)
    calls = [(x, "a"), (x, "b"), (x, "c")]
    return check_compile(target, calls=calls, backend="eager", max_recompiles=1, **options)
