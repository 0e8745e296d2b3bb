"""A round trip through a NumPy function that dynamo does not know."""

import numpy as np
import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "")]


def target(x):
    y = x.sin().numpy()
    z = np.interp(y, np.arange(3.0), np.arange(3.0))  # HERE
    return torch.from_numpy(z) * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
