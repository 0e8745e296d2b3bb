"""A running mean that is not updated when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "running")]


class Centre(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("running", torch.zeros(4))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.running.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - x.mean(0)


def check(**options):
    return check_compile(Centre(), torch.ones(3, 4), backend="eager", **options)
