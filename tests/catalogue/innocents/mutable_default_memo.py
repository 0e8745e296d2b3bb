"""A memo in a mutable default argument, filled in both legs."""

import torch

from pytest_torch_compile import check_compile


def sinusoid(x, _tables={}):  # noqa: B006
    length, width = x.shape
    if (length, width) not in _tables:
        _tables[length, width] = (torch.arange(length)[:, None] / 100 ** (torch.arange(width) / width)).sin()
    return x + _tables[length, width]


def check(**options):
    report = check_compile(sinusoid, torch.randn(3, 4), backend="eager", **options)
    assert sinusoid.__defaults__ == ({},)
    return report
