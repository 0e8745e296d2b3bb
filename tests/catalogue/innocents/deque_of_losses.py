"""A full deque with a limit, which forgets its oldest entry with each call, and is the same object afterwards."""

import collections

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = collections.deque([1, 2, 3], maxlen=3)

    def forward(self, x):
        self.window.append(4)
        return x.sin() * 2


def check(**options):
    model = Model()
    window = model.window
    report = check_compile(
        model, calls=[torch.ones(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert model.window is window and list(window) == [1, 2, 3] and window.maxlen == 3
    return report
