"""A backend that cannot compile the dynamic graph of the second batch size."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("compile-error", "static shapes only")]


def static_only(gm, example_inputs):
    if any(isinstance(value, torch.SymInt) for value in example_inputs):
        raise RuntimeError("static shapes only")
    return gm.forward


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    calls = [(torch.randn(4, 3),), (torch.randn(6, 3),)]
    return check_compile(target, calls=calls, backend=static_only, max_recompiles=1, **options)
