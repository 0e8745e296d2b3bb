"""A module-level step count that the compiled step does not advance."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "steps_done")]

steps_done = 0


def target(x):
    global steps_done
    if not torch.compiler.is_compiling():
        steps_done += 1
    return x.sin() * 2


def check(**options):
    try:
        return check_compile(target, torch.randn(4), backend="eager", **options)
    finally:
        assert steps_done == 0
