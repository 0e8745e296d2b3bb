"""A module-level running scale, updated in place by a graph whose last write a backend removes."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "running_scale")]

running_scale = torch.ones(4)


def drop_writes(gm, example_inputs):
    for node in list(gm.graph.nodes):
        if node.op == "call_method" and node.target == "copy_":
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
    gm.recompile()
    return gm


def target(x):
    amax = x.abs().amax(0)
    y = x / running_scale
    running_scale.copy_(running_scale * 0.9 + amax * 0.1)
    return y


def check(**options):
    return check_compile(target, torch.randn(3, 4), backend=drop_writes, **options)
