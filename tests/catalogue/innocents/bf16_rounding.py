"""bf16 through Inductor, which keeps fp32 between fused operators where eager rounds each one."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)).bfloat16()
    return check_compile(model, torch.randn(8, 16, dtype=torch.bfloat16), **options)
