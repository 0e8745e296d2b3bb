"""Under a default dtype of float64 a compiled-only path builds its positions in float32."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "float32")]


def positions(length):
    if torch.compiler.is_compiling():
        return torch.linspace(0, 1, length, dtype=torch.float32)
    return torch.linspace(0, 1, length)


def target(x):
    return x.to(torch.float32) * positions(x.shape[-1])


def check(**options):
    x = torch.ones(3, 4)
    torch.set_default_dtype(torch.float64)
    try:
        return check_compile(target, x, backend="eager", **options)
    finally:
        torch.set_default_dtype(torch.float32)
