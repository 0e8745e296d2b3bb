"""A default dtype that is set for one tensor and put back."""

import torch

from pytest_torch_compile import check_compile


@torch.compiler.disable
def table():
    torch.set_default_dtype(torch.float64)
    made = torch.arange(4.0)
    torch.set_default_dtype(torch.float32)
    return made.float()


def target(x):
    y = x.sin()
    return y + table()


def check(**options):
    return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
