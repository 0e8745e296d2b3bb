"""Parameters that are views of one flat buffer, as flattened optimizers have them, and a write through the buffer."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Flat(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("flat", torch.arange(8.0))
        self.first, self.second = self.flat[:4], self.flat[4:]

    def forward(self, x):
        self.flat.add_(1)
        return x * self.first + self.second


def check(**options):
    model = Flat()
    report = check_compile(
        model, calls=[torch.randn(4)] * 2, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert model.first.data_ptr() == model.flat.data_ptr() and model.flat.tolist() == list(range(8))
    return report
