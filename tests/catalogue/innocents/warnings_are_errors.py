"""A suite that runs with `-W error`: torch's own warnings while it compiles a training step are no failure."""

import warnings

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.randn(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check_compile(model, x, train=True, backend="aot_eager", **options)
