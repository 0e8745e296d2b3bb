"""A helper put into the graph whole counts its calls: tracing it counts as well, so the compiled count is too high."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "usage")]

usage = {"fused_gate": 0}


@torch.compiler.allow_in_graph
def fused_gate(x):
    usage["fused_gate"] += 1
    return x * torch.sigmoid(x)


def target(x):
    return fused_gate(x) + x


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
