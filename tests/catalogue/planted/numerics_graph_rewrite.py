"""A graph pass that replaces one operator by a similar one."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def rewrite(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.op == "call_method" and node.target == "erf":
            node.target = "tanh"
    gm.recompile()
    return gm.forward


def target(x):
    return x.erf() * x


def check(**options):
    return check_compile(target, torch.randn(16), backend=rewrite, **options)
