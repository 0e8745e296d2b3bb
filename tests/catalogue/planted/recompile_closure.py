"""A closed-over variable is rebound between two calls."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "mode")]


def make():
    mode = "sin"

    def target(x):  # HERE
        return x.sin() if mode == "sin" else x.cos()

    def set_mode(value):
        def change(_target):
            nonlocal mode
            mode = value

        return change

    return target, set_mode


def check(**options):
    target, set_mode = make()
    x = torch.randn(4)
    calls = [call(x).before(set_mode("sin")), call(x).before(set_mode("cos"))]
    return check_compile(target, calls=calls, backend="eager", **options)
