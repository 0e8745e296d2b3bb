"""A training step of a CPU model under a default device of `meta`: cotangents and their generator are on the CPU."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model, x = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)), torch.randn(2, 4)
    torch.set_default_device("meta")
    try:
        return check_compile(model, x, train=True, backend="aot_eager", **options)
    finally:
        torch.set_default_device(None)
