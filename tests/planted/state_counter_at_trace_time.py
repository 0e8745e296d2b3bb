"""A step number from a function that is run while tracing only: it moves in eager's second call, not in compiled code's."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "profiler_marks")]

profiler_marks = []


@torch.compiler.assume_constant_result
def mark():
    profiler_marks.append("forward")
    return 1.0


def target(x):
    return x.sin() * mark()


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[(x,), (x,)], backend="eager", **options)
