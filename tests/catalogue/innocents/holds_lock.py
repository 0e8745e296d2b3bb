"""A module that holds a lock and a re-entrant lock for its weight swaps, neither used in forward."""

import threading

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Served(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.swap_lock = threading.Lock()
        self.load_lock = threading.RLock()

    def forward(self, x):
        return self.linear(x).relu()


def check(**options):
    return check_compile(Served(), torch.randn(2, 4), backend="eager", train=True, **options)
