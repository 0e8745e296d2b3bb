"""A closure over a `nonstrict_trace` function, or over an `allow_in_graph` one where torch does not have it yet."""

import torch

from pytest_torch_compile import check_compile

opaque = getattr(torch._dynamo, "nonstrict_trace", torch.compiler.allow_in_graph)


def check(**options):
    scale = 0.5

    @opaque
    def soft_clip(x):
        return torch.tanh(x * scale) / scale

    def target(x):
        return soft_clip(x.sin()) + 1

    return check_compile(target, torch.randn(8), backend="eager", **options)
