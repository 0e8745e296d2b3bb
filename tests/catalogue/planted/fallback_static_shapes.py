"""Twelve batch sizes with dynamic shapes switched off: eager from the ninth on."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("eager-fallback", "limit")]


def check(**options):
    calls = [(torch.randn(batch, 4),) for batch in range(2, 14)]
    options = {"backend": "eager", "fullgraph": False, "dynamic": False, "max_recompiles": 20, **options}
    return check_compile(nn.Linear(4, 4), calls=calls, **options)
