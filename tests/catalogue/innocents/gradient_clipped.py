"""Gradients that the caller has are clipped to a norm."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def check(**options):
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.full((3,), 10.0)

    def clip():
        norm = weight.grad.norm() + 1e-6
        weight.grad.mul_(1.0 / norm)
        return norm * 2

    report = check_compile(clip, calls=[call()], max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert weight.grad.tolist() == [10.0] * 3
    return report
