"""Two inputs that are views of one tensor, one of them written to."""

import torch

from pytest_torch_compile import check_compile


def target(a, b):
    a.add_(1)
    return b * 2


def check(**options):
    base = torch.zeros(6)
    return check_compile(target, base[:4], base[2:], backend="aot_eager", **options)
