"""Prefill was compiled before the region, decode compiles in it."""

import torch

from pytest_torch_compile import compile_guard


def prefill(x):
    return x.softmax(-1)


def decode(x):
    return x.cumsum(-1) * 2


def check(**options):
    torch._dynamo.reset()
    compiled_prefill = torch.compile(prefill, backend="eager")
    compiled_decode = torch.compile(decode, backend="eager")
    compiled_prefill(torch.randn(2, 4))
    with compile_guard(name="generate") as seen:
        compiled_decode(compiled_prefill(torch.randn(2, 4)))
    return seen
