"""A NumPy random generator in the middle of a model."""

import numpy as np
import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "")]


def target(x):
    y = x.sin()
    noise = np.random.RandomState(0)  # HERE
    return y, noise is None


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
