"""Lines in a `StringIO`, which compiled code does not write."""

import io

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state|not-observable", "")]


def check(**options):
    text = io.StringIO()

    def target(x):
        if not torch.compiler.is_compiling():
            text.write("step\n")
        return x.sin() * 2

    return check_compile(target, torch.randn(4), backend="eager", **options)
