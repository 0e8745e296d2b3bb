"""A weak reference as an argument, through which eager counts and compiled code does not."""

import weakref

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state|mutation", "")]


class Meter:
    count = 0


def target(x, meter):
    if not torch.compiler.is_compiling():
        meter().count += 1
    return x.sin() * 2


def check(**options):
    meter = Meter()
    try:
        return check_compile(target, torch.randn(4), weakref.ref(meter), backend="eager", **options)
    finally:
        assert "count" not in vars(meter)
