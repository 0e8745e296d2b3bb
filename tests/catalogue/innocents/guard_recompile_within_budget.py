"""The last batch of an epoch is smaller: the one recompile that the budget allows."""

import torch
from torch import nn

from pytest_torch_compile import compile_guard


def check(**options):
    torch._dynamo.reset()
    step = torch.compile(nn.Linear(4, 4), backend="eager")
    with compile_guard(max_recompiles=1, name="an epoch") as seen:
        for batch in torch.randn(18, 4).split(4):
            step(batch).square().mean().backward()
    return seen
