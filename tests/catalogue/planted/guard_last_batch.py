"""A training loop whose last batch is smaller, in a region that allows no recompile."""

import torch
from torch import nn

from pytest_torch_compile import compile_guard

EXPECT = [("recompile", "1 recompile, 0 allowed")]


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, batch):  # HERE
        return self.layer(batch).square().mean()


def check(**options):
    torch._dynamo.reset()
    step = torch.compile(Step(), backend="eager")
    with compile_guard(name="an epoch") as seen:
        for batch in torch.randn(10, 4).split(4):
            step(batch).backward()
    return seen
