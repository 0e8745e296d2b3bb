"""Compiled code that was built for one batch size and fails on the second."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("exception", "batch of 4")]


def fixed(gm, example_inputs):
    def run(*args):
        tensor = next(arg for arg in args if isinstance(arg, torch.Tensor))
        if tensor.shape[0] != 4:
            raise RuntimeError("built for a batch of 4")
        return gm(*args)

    return run


def target(x):
    return x.sin() * 2


def check(**options):
    calls = [(torch.randn(4, 3),), (torch.randn(6, 3),)]
    return check_compile(target, calls=calls, backend=fixed, dynamic=True, **options)
