"""A global that the function reads is changed between two calls."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "MODE")]
MODE = "sin"


def target(x):  # HERE
    return x.sin() if MODE == "sin" else x.cos()


def set_mode(value):
    def change(_target):
        global MODE
        MODE = value

    return change


def check(**options):
    x = torch.randn(4)
    calls = [call(x).before(set_mode("sin")), call(x).before(set_mode("cos"))]
    return check_compile(target, calls=calls, backend="eager", **options)
