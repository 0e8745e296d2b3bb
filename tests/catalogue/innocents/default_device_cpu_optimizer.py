"""`set_default_device("cpu")`, as a conftest does, around a step of SGD with momentum."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    torch.set_default_device("cpu")
    try:
        model, x = nn.Linear(4, 4), torch.randn(2, 4)
        options = {"backend": "aot_eager", "train": True, "steps": 2, **options}
        return check_compile(model, x, optimizer=lambda ps: torch.optim.SGD(ps, 0.1, momentum=0.9), **options)
    finally:
        torch.set_default_device(None)
