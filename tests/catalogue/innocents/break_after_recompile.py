"""Another dtype compiles everything again and meets the same break: still one."""

import torch

from pytest_torch_compile import check_compile


def scale(x):
    torch._dynamo.graph_break()
    return x / 2


def target(x):
    return scale(x.sin()).exp()


def check(**options):
    calls = [(torch.randn(4),), (torch.randn(4, dtype=torch.float64),), (torch.randn(4),)]
    options = {"backend": "eager", "max_graph_breaks": 1, "max_recompiles": 8, **options}
    return check_compile(target, calls=calls, **options)
