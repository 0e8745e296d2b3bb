"""A class method as the target."""

import torch

from pytest_torch_compile import check_compile


class Ops:
    scale = 2.0

    @classmethod
    def double(cls, x):
        return x.sin() * cls.scale


def check(**options):
    return check_compile(Ops.double, torch.randn(4), backend="eager", **options)
