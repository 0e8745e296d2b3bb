"""Of two uses of one parameter, the compiled leg forgets one in the backward."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "embed.weight")]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        weight = self.head.weight
        if torch.compiler.is_compiling():
            weight = weight.detach()
        return nn.functional.linear(self.embed(tokens), weight)


def check(**options):
    return check_compile(Tied(), torch.randint(0, 10, (2, 5)), backend="eager", train=True, **options)
