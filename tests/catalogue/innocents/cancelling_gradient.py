"""A bias in front of a batch norm: its true gradient is zero, and both legs give their own rounding noise."""

import torch
from torch import nn
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd

from pytest_torch_compile import check_compile


def compiler(gm, example_inputs):
    return gm.forward


backend = aot_autograd(fw_compiler=compiler, decompositions=core_aten_decompositions())


def check(**options):
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)).train()
    return check_compile(model, torch.randn(32, 8), backend=backend, train=True, **options)
