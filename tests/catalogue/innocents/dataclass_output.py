"""A dataclass as the output, with a field that is None and one that is not a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pytest_torch_compile import check_compile


@dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None
    steps: int = 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return Output(logits=self.linear(x), steps=2)


def check(**options):
    return check_compile(Model(), torch.randn(2, 4), backend="eager", train=True, **options)
