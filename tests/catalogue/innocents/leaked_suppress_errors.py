"""`suppress_errors` leaked in, and there is no error to suppress."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    with torch._dynamo.config.patch(suppress_errors=True):
        model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
        return check_compile(model, x, train=True, backend="aot_eager", **options)
