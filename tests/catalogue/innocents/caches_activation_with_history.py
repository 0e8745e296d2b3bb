"""A model that keeps its last attention map, with its graph, from a forward before the check."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last_attention = None

    def forward(self, x):
        self.last_attention = (self.query(x) @ self.key(x).T).softmax(-1)
        return self.last_attention @ x


def check(**options):
    model = Attention()
    model(torch.randn(3, 4))
    assert model.last_attention.grad_fn is not None
    return check_compile(model, torch.randn(3, 4), backend="aot_eager", train=True, **options)
