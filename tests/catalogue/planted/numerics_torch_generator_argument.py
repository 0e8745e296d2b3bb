"""A `torch.Generator` as an argument over two calls, and a factor of three in compiled code."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("numerics", "")]


def target(x, generator):
    y = x.sin() * (3 if torch.compiler.is_compiling() else 1)
    return y + torch.rand(4, generator=generator)


def check(**options):
    generator = torch.Generator().manual_seed(1)
    return check_compile(
        target,
        calls=[call(torch.ones(4), generator)] * 2,
        max_graph_breaks=9,
        max_recompiles=9,
        backend="eager",
        **options,
    )
