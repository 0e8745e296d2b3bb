"""Lists and dicts in each other, one of them in itself, written by both and the same objects afterwards."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tree = {"branches": [{"leaves": [1]}]}
        self.tree["self"] = self.tree

    def forward(self, x):
        self.tree["branches"][0]["leaves"].append(2)
        return x.sin() * 2


def check(**options):
    model = Model()
    leaves = model.tree["branches"][0]["leaves"]
    report = check_compile(model, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert model.tree["branches"][0]["leaves"] is leaves and leaves == [1]
    return report
