"""Compiled code whose backward raises, after a forward that is right."""

import torch
from torch._dynamo.backends.common import aot_autograd

from pytest_torch_compile import check_compile

EXPECT = [("exception", "no backward")]


def forward_compiler(gm, example_inputs):
    return gm.forward


def backward_compiler(gm, example_inputs):
    def run(*args):
        raise RuntimeError("no backward kernel")

    return run


backend = aot_autograd(fw_compiler=forward_compiler, bw_compiler=backward_compiler)


def target(x):
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(8, requires_grad=True), backend=backend, train=True, **options)
