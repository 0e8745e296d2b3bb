"""An operator that writes to a buffer of the caller with `out=`."""

import torch

from pytest_torch_compile import check_compile


def target(x, out):
    torch.add(x, 1, out=out)
    return out * 2


def check(**options):
    return check_compile(target, torch.randn(4), torch.zeros(4), backend="eager", **options)
