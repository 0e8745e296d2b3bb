"""Uninitialised integers, a byte mask and complex numbers as outputs, allocated by each of the ways of torch."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return (
        x.sin(),
        torch.empty(4096, dtype=torch.int64),
        x.new_empty(4096, dtype=torch.complex64),
        torch.empty_strided((64, 64), (1, 64), dtype=torch.float16),
        torch.empty_like(x, dtype=torch.uint8),
    )


def check(**options):
    dirt = [torch.full((8192,), float(value)) for value in range(1, 5)]
    del dirt
    return check_compile(target, torch.randn(4096), backend="eager", **options)
