"""A half-precision product that overflows to infinity in both legs."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x * x, (x * x).exp()


def check(**options):
    x = torch.tensor([1.0, 300.0, -300.0], dtype=torch.float16)
    return check_compile(target, x, backend="aot_eager", **options)
