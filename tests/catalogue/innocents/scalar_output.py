"""A single number as the output, where one rounding is all the evidence there is."""

import torch

from pytest_torch_compile import check_compile


def exact(gm, example_inputs):
    return lambda x: ((x.double() * x.double()).mean().float(),)


def target(x):
    return (x * x).mean()


def check(**options):
    return check_compile(target, torch.randn(1000), backend=exact, **options)
