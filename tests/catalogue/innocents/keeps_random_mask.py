"""A model that keeps the dropout mask it drew: random, and the same in both legs under the shared random state."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.last_mask = None

    def forward(self, x):
        self.last_mask = torch.rand(x.shape) > 0.5
        return self.linear(x) * self.last_mask


def check(**options):
    calls = [(torch.randn(3, 4),), (torch.randn(3, 4),)]
    return check_compile(Masked(), calls=calls, backend="aot_eager", train=True, max_recompiles=1, **options)
