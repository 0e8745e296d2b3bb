"""A frozen dataclass holds a list of steps, to which compiled code adds nothing."""

from dataclasses import dataclass

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "steps")]


@dataclass(frozen=True)
class Trace:
    steps: list


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trace = Trace([])

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.trace.steps.append(1)
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
