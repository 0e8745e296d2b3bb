"""A suite whose model keeps its last hidden state in an attribute, detached and halved in compiled code."""

import torch
from torch import nn

from pytest_torch_compile import CompileSuite

EXPECT = [("state", "carry")]


class Carrying(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.carry = None

    def forward(self, x):
        y = self.linear(x).tanh()
        self.carry = y.detach() * (0.5 if torch.compiler.is_compiling() else 1.0)
        return y


class Carry(CompileSuite):
    shapes = [(2, 4)]

    def make_model(self):
        return Carrying()

    def make_inputs(self, shape):
        return torch.randn(*shape)


def check(**options):
    suite = Carry()
    suite.options = {"backend": "eager", **options}
    return suite.test_compile_training()
