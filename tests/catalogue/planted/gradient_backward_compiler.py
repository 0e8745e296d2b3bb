"""A backend whose backward graph is off by two per cent."""

import torch
from torch._dynamo.backends.common import aot_autograd

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "")]


def forward_compiler(gm, example_inputs):
    return gm.forward


def backward_compiler(gm, example_inputs):
    return lambda *args: tuple(None if grad is None else grad * 1.02 for grad in gm(*args))


backend = aot_autograd(fw_compiler=forward_compiler, bw_compiler=backward_compiler)


def target(x):
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(8, requires_grad=True), backend=backend, train=True, **options)
