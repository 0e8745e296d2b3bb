"""An object with `__call__` that is not a module."""

import torch

from pytest_torch_compile import check_compile


class Affine:
    def __init__(self):
        self.scale = torch.full((4,), 2.0)

    def __call__(self, x):
        return x.sin() * self.scale


def check(**options):
    return check_compile(Affine(), torch.randn(4), backend="eager", **options)
