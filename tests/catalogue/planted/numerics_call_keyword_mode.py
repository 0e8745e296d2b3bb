"""The model's own `mode`, given through `call`: it must reach the model, or the wrong branch is compared."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("numerics", "")]


def target(x, mode="nearest"):
    if mode == "linear":
        return x * (1.5 if torch.compiler.is_compiling() else 1.0)
    return x.round()


def check(**options):
    return check_compile(target, calls=[call(torch.randn(4), mode="linear")], backend="eager", **options)
