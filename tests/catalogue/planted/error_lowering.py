"""A decomposition that raises while the graph is lowered."""

import torch
from torch._dynamo.backends.common import aot_autograd

from pytest_torch_compile import check_compile

EXPECT = [("compile-error", "cannot lower")]
ALSO = {"nothing-compiled"}


def lower(gm, example_inputs):
    if any(node.target is torch.ops.aten.sin.default for node in gm.graph.nodes):
        raise RuntimeError("cannot lower aten.sin")
    return gm.forward


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend=aot_autograd(fw_compiler=lower), **options)
