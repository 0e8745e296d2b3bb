"""A bf16 model under a default device of `meta`: the fp64 reference is built on the model's own device."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.LayerNorm(16)).to(torch.bfloat16)
    x = torch.randn(4, 16, dtype=torch.bfloat16)
    torch.set_default_device("meta")
    try:
        return check_compile(model, x, train=True, backend="aot_eager_decomp_partition", **options)
    finally:
        torch.set_default_device(None)
