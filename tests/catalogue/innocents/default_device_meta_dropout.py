"""Dropout and noise on the CPU under a default device of `meta`: both legs draw the same numbers."""

import torch
import torch.nn.functional as F

from pytest_torch_compile import check_compile


def target(x):
    noise = torch.randn(x.shape, device=x.device)
    return F.dropout(x + noise, 0.3) * torch.rand_like(x)


def check(**options):
    calls = [(torch.ones(4),), (torch.zeros(4),)]
    torch.set_default_device("meta")
    try:
        return check_compile(target, calls=calls, backend="aot_eager", **options)
    finally:
        torch.set_default_device(None)
