"""A backend that drops the bounds check of the graph it was given."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("exception", "index")]


def unchecked(gm, example_inputs):
    def run(x, rows):
        return (x[rows % x.shape[0]] * 2,)

    return run


def target(x, rows):
    return x[rows] * 2


def check(**options):
    x = torch.randn(4, 3)
    calls = [(x, torch.tensor([0, 3])), (x, torch.tensor([0, 9]))]
    return check_compile(target, calls=calls, backend=unchecked, **options)
