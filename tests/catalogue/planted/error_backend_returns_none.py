"""A backend that forgets to return the compiled callable."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("compile-error", "")]
ALSO = {"nothing-compiled"}


def forgetful(gm, example_inputs):
    gm.recompile()


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend=forgetful, **options)
