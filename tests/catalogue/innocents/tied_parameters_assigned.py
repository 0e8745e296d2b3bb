"""Tied weights that forward ties anew in each call, in training with an optimizer."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids)).square().mean()


def sgd(params):
    return torch.optim.SGD(params, lr=0.1)


def check(**options):
    model = Tied()
    weight = model.embed.weight
    ids = torch.tensor([1, 2, 3])
    report = check_compile(model, ids, train=True, optimizer=sgd, steps=2, backend="aot_eager", **options)
    assert model.head.weight is weight and model.embed.weight is weight
    return report
