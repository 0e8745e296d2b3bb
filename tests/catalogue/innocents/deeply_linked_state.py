"""State in a long chain of nodes, as an undo history is: deeper than Python's recursion goes."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Node:
    def __init__(self, value, previous):
        self.value = value
        self.previous = previous


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.history = None
        for value in range(3000):
            self.history = Node(value, self.history)

    def forward(self, x):
        return self.linear(x)

    def __deepcopy__(self, memo):
        twin = Model()
        memo[id(self)] = twin
        twin.load_state_dict(self.state_dict())
        return twin


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", **options)
