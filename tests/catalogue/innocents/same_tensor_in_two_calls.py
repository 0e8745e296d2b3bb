"""One tensor in two calls that each write it: the second sees what the first wrote, the caller neither."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    x.add_(1)
    return x * 2


def check(**options):
    x = torch.zeros(4)
    report = check_compile(target, calls=[x, x], backend="aot_eager", **options)
    assert not x.any()
    return report
