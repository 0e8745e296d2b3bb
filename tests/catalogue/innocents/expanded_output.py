"""An expanded output with a stride of zero, and an empty one."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.sum().expand(3, 4), x[:0] * 2, x.conj()


def check(**options):
    return check_compile(target, torch.randn(4, 4), backend="aot_eager", **options)
