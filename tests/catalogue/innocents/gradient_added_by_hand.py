"""A gradient that the caller made is added to in place over two calls."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Accumulating(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        self.weight.grad.add_(x)
        return x.sin()


def check(**options):
    model = Accumulating()
    model.weight.grad = grad = torch.ones(4)
    report = check_compile(
        model, calls=[torch.randn(4), torch.randn(4)], max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert model.weight.grad is grad and torch.equal(grad, torch.ones(4))
    return report
