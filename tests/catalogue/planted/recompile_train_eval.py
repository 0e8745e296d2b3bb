"""The model is switched to eval between two calls."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "training")]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):  # HERE
        return self.dropout(self.linear(x))


def check(**options):
    x = torch.randn(2, 4)
    calls = [call(x).before(lambda target: target.train()), call(x).before(lambda target: target.eval())]
    return check_compile(Model(), calls=calls, backend="eager", **options)
