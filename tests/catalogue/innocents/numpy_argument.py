"""A NumPy array, a dtype and a string as arguments."""

import numpy as np
import torch

from pytest_torch_compile import check_compile


def target(x, table, dtype, name):
    y = x.to(dtype) + torch.from_numpy(table)
    return y * len(name)


def check(**options):
    table = np.ones(4, dtype=np.float32)
    return check_compile(target, torch.randn(4), table, torch.float32, "sum", backend="eager", **options)
