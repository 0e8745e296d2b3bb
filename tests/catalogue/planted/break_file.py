"""The model opens a file."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "open")]
ALSO = {"graph-break"}


def target(x):
    y = x.sin()
    file = open("/dev/null")  # HERE  # noqa: SIM115
    return y * 2, file is None


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
