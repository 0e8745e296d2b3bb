"""A frozen dataclass whose field is written behind its back, in eager only."""

from dataclasses import dataclass

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "scale")]


@dataclass(frozen=True)
class Config:
    scale: float = 1.0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()

    def forward(self, x):
        if not torch.compiler.is_compiling():
            object.__setattr__(self.config, "scale", 2.0)
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
