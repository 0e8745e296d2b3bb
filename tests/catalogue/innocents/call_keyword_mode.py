"""A model with a keyword `mode`, as in resizing layers, given through `call`."""

import torch
import torch.nn.functional as F
from torch import nn

from pytest_torch_compile import call, check_compile


class Resize(nn.Module):
    def forward(self, x, *, mode="nearest"):
        return F.interpolate(x, scale_factor=2, mode=mode)


def check(**options):
    x = torch.randn(1, 2, 3, 3)
    calls = [call(x, mode="nearest"), call(x, mode="bilinear")]
    return check_compile(Resize(), calls=calls, backend="eager", max_recompiles=1, **options)
