"""Compiled code leaves cuDNN's benchmark mode on, which chooses convolutions by their speed."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "torch.backends.cudnn.benchmark")]


@torch.compiler.disable
def configure(compiling):
    torch.backends.cudnn.benchmark = compiling


def target(x):
    configure(torch.compiler.is_compiling())
    return x.sin() * 2


def check(**options):
    before = torch.backends.cudnn.benchmark
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        assert torch.backends.cudnn.benchmark == before
