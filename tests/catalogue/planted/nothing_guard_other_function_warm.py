"""Another function was compiled before the block; what runs in it is the plain one."""

import torch

from pytest_torch_compile import compile_guard

EXPECT = [("nothing-compiled", "")]


def prefill(x):
    return x.sin() * 2


def decode(x):
    return x.cos() * 2


def check(**options):
    torch._dynamo.reset()
    torch.compile(prefill, backend="eager")(torch.randn(4))
    with compile_guard(name="decode") as seen:
        decode(torch.randn(4))
    return seen
