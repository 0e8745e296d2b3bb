"""An embedding and a head that share one parameter, trained for two steps."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 4)
        self.head = nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def sgd(params):
    return torch.optim.SGD(params, lr=0.1)


def check(**options):
    tokens = torch.randint(0, 10, (2, 5))
    return check_compile(Tied(), tokens, backend="eager", train=True, optimizer=sgd, steps=2, **options)
