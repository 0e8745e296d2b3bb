"""A buffer that grows in place keeps its first numbers, which compiled code gets wrong; its tail means nothing."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "output")]


def target(x):
    kept = x.sin() * (1.001 if torch.compiler.is_compiling() else 1)
    kept = kept.clone().resize_(2 * x.numel())
    return kept[: x.numel()].clone()


def check(**options):
    return check_compile(target, torch.randn(4096), backend="eager", fullgraph=False, max_graph_breaks=1, **options)
