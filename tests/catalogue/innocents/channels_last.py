"""A convolution in channels-last memory format, model and input."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    return check_compile(model, x, backend="aot_eager", train=True, **options)
