"""A least-recently-used cache of adapters: compiled code reads an entry without marking it as used."""

from collections import OrderedDict

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "adapters")]


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.adapters = OrderedDict(english=torch.ones(4), german=torch.ones(4) * 2)

    def forward(self, x, language):
        if not torch.compiler.is_compiling():
            self.adapters.move_to_end(language)
        return self.linear(x) * self.adapters[language]


def check(**options):
    return check_compile(Adapted(), torch.randn(2, 4), "english", backend="eager", **options)
