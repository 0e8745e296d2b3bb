"""Experts in a plain list, out of the module tree, each with a count and a batch norm of its own."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.tokens_routed = 0

    def forward(self, x):
        self.tokens_routed += x.shape[0]
        return self.norm(x)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = [Expert(), Expert()]

    def forward(self, x):
        return torch.cat([expert(part) for expert, part in zip(self.experts, x.chunk(2), strict=True)])


def check(**options):
    model = Mixture()
    report = check_compile(model, torch.randn(6, 4), backend="eager", **options)
    assert [expert.tokens_routed for expert in model.experts] == [0, 0]
    assert [expert.norm.num_batches_tracked.item() for expert in model.experts] == [0, 0]
    return report
