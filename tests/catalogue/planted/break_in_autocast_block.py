"""Graph break inside an autocast block, in an expression of several lines."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]
ALSO = {"nothing-compiled"}


def target(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        parts = (
            x.sin(),
            torch._dynamo.graph_break(),  # HERE
            x.cos(),
        )
    return parts[0] + parts[2]


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
