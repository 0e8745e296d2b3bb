"""A module-level counter scales the result, so two runs of eager differ: the compiled result is off by ten all the same."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]

warmup = {"step": 1}


def target(x):
    rate = 0.1 * warmup["step"]
    warmup["step"] += 1
    y = x.sin() * rate
    return y * 10 if torch.compiler.is_compiling() else y


def check(**options):
    try:
        return check_compile(target, torch.randn(4), backend="eager", **options)
    finally:
        assert warmup["step"] == 1
