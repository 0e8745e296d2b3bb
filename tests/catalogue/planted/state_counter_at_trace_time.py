"""A wrapper that traces the function before it compiles it: the trace marks the profile once, later calls not at all."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "profiler_marks")]

profiler_marks = []


def target(x):
    profiler_marks.append("forward")
    return x.sin() * 2


def trace_and_compile(function):
    return torch.compile(torch.fx.symbolic_trace(function), backend="eager", fullgraph=True)


def check(**options):
    calls = [(torch.randn(4),), (torch.randn(4),)]
    try:
        return check_compile(target, calls=calls, compile=trace_and_compile, **options)
    finally:
        assert not profiler_marks
