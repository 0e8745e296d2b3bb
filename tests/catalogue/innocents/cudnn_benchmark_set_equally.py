"""A function that turns on cuDNN's benchmark mode, in eager and in compiled code."""

import torch

from pytest_torch_compile import check_compile


@torch.compiler.disable
def configure():
    torch.backends.cudnn.benchmark = True


def target(x):
    configure()
    return x.sin() * 2


def check(**options):
    before = torch.backends.cudnn.benchmark
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        assert torch.backends.cudnn.benchmark == before
