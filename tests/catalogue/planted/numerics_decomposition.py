"""A wrong decomposition of one operator, applied in the lowering."""

import torch
from torch._dynamo.backends.common import aot_autograd

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def silu(x):
    return x * torch.sigmoid(1.05 * x)


def compiler(gm, example_inputs):
    return gm.forward


backend = aot_autograd(fw_compiler=compiler, decompositions={torch.ops.aten.silu.default: silu})


def target(x):
    return torch.nn.functional.silu(x) + 1


def check(**options):
    return check_compile(target, torch.randn(16), backend=backend, **options)
