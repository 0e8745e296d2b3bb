"""A registry on the base class of the model, in which compiled code writes nothing."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "registry")]


class Base(nn.Module):
    registry = []


class Model(Base):
    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.registry.append("model")
        return x.sin() * 2


def check(**options):
    return check_compile(Model(), torch.randn(4), backend="eager", **options)
