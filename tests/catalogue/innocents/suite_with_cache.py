"""A suite over three lengths of a model that keeps masks by length and counts its calls."""

import torch
from torch import nn

from pytest_torch_compile import CompileSuite


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.mask = None

    def forward(self, x):
        scores = self.linear(x) @ x.transpose(-1, -2)
        self.mask = torch.ones_like(scores).tril() == 0
        return scores.masked_fill(self.mask, float("-inf")).softmax(-1)


class CausalSuite(CompileSuite):
    shapes = [(2, 5, 4), (2, 7, 4), (2, 9, 4)]
    max_recompiles = 3

    def make_model(self):
        return Masked()

    def make_inputs(self, shape):
        return torch.randn(*shape)


def check(**options):
    suite = CausalSuite()
    suite.options = {"backend": "eager", **options}
    suite.test_compile_inference()
    suite.test_compile_training()
    return suite.test_compile_shapes()
