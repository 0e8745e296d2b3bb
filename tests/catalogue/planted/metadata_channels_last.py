"""A backend that loses the channels-last layout of the output."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "stride")]


def contiguous(gm, example_inputs):
    return lambda *args: tuple(value.contiguous() for value in gm(*args))


def target(x):
    return x.sin() * 2


def check(**options):
    x = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    return check_compile(target, x, backend=contiguous, **options)
