"""The default device is `meta` while a CPU model is checked: every tensor of the check's own names its device."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    torch.set_default_device("meta")
    try:
        return check_compile(model, x, backend="aot_eager", **options)
    finally:
        torch.set_default_device(None)
