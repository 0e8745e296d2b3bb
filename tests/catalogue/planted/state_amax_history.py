"""An FP8 recipe's list of maxima: compiled code appends the new one but does not drop the oldest."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "amax_history")]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.amax_history = [torch.ones(()), torch.ones(()) * 2]

    def forward(self, x):
        scale = torch.stack(self.amax_history).amax()
        self.amax_history.append(x.detach().abs().amax())
        if not torch.compiler.is_compiling():
            self.amax_history.pop(0)
        return self.linear(x / scale) * scale


def check(**options):
    return check_compile(Scaled(), torch.randn(2, 4), backend="eager", train=True, **options)
