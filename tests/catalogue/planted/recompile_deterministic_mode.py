"""Deterministic algorithms are switched on between two calls."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "deterministic")]


def target(x):  # HERE
    return x.sin() * 2


def deterministic(value):
    return lambda target: torch.use_deterministic_algorithms(value)


def check(**options):
    x = torch.randn(4)
    calls = [call(x).before(deterministic(False)), call(x).before(deterministic(True))]
    try:
        return check_compile(target, calls=calls, backend="eager", **options)
    finally:
        torch.use_deterministic_algorithms(False)
