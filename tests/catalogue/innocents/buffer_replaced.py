"""A buffer that is replaced with each call; the caller has the tensor it had."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total = self.total + x
        return self.total.sin()


def check(**options):
    model = Model()
    total = model.total
    report = check_compile(model, calls=[torch.ones(4), torch.randn(4)], backend="aot_eager", **options)
    assert model.total is total and torch.equal(total, torch.zeros(4))
    return report
