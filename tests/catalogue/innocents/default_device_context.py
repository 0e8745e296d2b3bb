"""The check runs inside `with torch.device("meta")`; the model names the device of what it makes."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Rotary(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.linspace(0.1, 1.0, 4))

    def forward(self, x):
        position = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
        return x * torch.cos(position * self.frequencies)


def check(**options):
    model, x = Rotary(), torch.randn(3, 4)
    with torch.device("meta"):
        return check_compile(model, x, backend="eager", **options)
