"""An ordered dict as the output, with a nested tuple and a None."""

from collections import OrderedDict

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.linear(x)
        return OrderedDict(last_hidden_state=hidden, hidden_states=(x, hidden), attentions=None)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", train=True, **options)
