"""A module that holds a generator and a lock and refuses to be copied: its running mean stays when compiled."""

import threading

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "mean")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.source, self.lock = (number for number in range(3)), threading.Lock()

    def __reduce__(self):
        raise RuntimeError("this model exists once")

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.mean.lerp_(x.mean(0), 0.1)
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.ones(2, 4), backend="eager", **options)
