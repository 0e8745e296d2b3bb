"""A lambda as the target."""

import torch

from pytest_torch_compile import check_compile


def check(**options):
    return check_compile(lambda x: x.sin() * 2, torch.randn(4), backend="eager", **options)
