"""A call that writes a buffer and a list and then raises, as expected: the caller has what he had."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.seen = []

    @torch.compiler.disable
    def refuse(self):
        raise ValueError("too much")

    def forward(self, x):
        self.total.add_(x)
        self.seen.append(1)
        self.refuse()
        return x * 2


def check(**options):
    model = Model()
    calls = [call(torch.ones(4)).raises(ValueError)]
    report = check_compile(model, calls=calls, max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.seen == [] and not model.total.any()
    return report
