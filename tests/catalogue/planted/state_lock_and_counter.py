"""A module that holds a lock, and a count beside it that compiled code does not advance."""

import threading

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "requests_served")]


class Server(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.swap_lock = threading.Lock()
        self.requests_served = 0

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.requests_served += 1
        return self.linear(x)

    def swap(self, weight):
        with self.swap_lock, torch.no_grad():
            self.linear.weight.copy_(weight)


def check(**options):
    return check_compile(Server(), torch.randn(2, 4), backend="eager", **options)
