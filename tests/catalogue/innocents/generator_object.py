"""A `torch.Generator` as an argument, which cannot be copied on every torch, under a budget that allows its break."""

import torch

from pytest_torch_compile import check_compile


def target(x, generator):
    return x.sin() + torch.rand(4, generator=generator)


def check(**options):
    generator = torch.Generator().manual_seed(1)
    return check_compile(target, torch.randn(4), generator, backend="eager", max_graph_breaks=3, **options)
