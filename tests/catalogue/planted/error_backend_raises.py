"""A backend that raises on every graph."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("compile-error", "no kernel")]
ALSO = {"nothing-compiled"}


def broken(gm, example_inputs):
    raise RuntimeError("no kernel for this graph")


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend=broken, **options)
