"""A layer that counts its batches in a Python attribute, except in compiled code."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "batches_seen")]


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.batches_seen = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.batches_seen += 1
        return (x - x.mean()) / (x.std() + 1e-5)


def check(**options):
    return check_compile(Normalise(), torch.randn(3, 4), backend="eager", **options)
