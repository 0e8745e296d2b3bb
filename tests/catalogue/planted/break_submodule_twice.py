"""A Siamese network sends two images through one encoder that breaks: once for each line."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "of 2, 1 allowed")]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.proj(x)
        torch._dynamo.graph_break()  # HERE, met from two lines of Siamese.forward
        return hidden.tanh()


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, left, right):
        a = self.encoder(left)
        b = self.encoder(right)
        return (a - b).abs().sum(-1)


def check(**options):
    left, right = torch.randn(2, 4), torch.randn(2, 4)
    return check_compile(Siamese(), left, right, backend="eager", max_graph_breaks=1, **options)
