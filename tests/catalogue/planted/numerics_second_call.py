"""A backend that keeps its first result: only the second call is wrong."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def memoise(gm, example_inputs):
    seen = []

    def run(*args):
        if not seen:
            seen.append([value.clone() for value in gm(*args)])
        return tuple(value.clone() for value in seen[0])

    return run


def target(x):
    return x.sin() * 2


def check(**options):
    calls = [(torch.zeros(4),), (torch.ones(4),)]
    return check_compile(target, calls=calls, backend=memoise, **options)
