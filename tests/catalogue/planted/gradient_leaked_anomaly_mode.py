"""Anomaly mode leaked in: it changes no gradient, and the wrong one is found as ever."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


def target(x):
    y = x.exp()
    if torch.compiler.is_compiling():
        y = y.detach() + (x - x.detach())
    return y


def check(**options):
    with torch.autograd.set_detect_anomaly(True):
        x = torch.rand(4, requires_grad=True)
        return check_compile(target, x, train=True, backend="aot_eager", **options)
