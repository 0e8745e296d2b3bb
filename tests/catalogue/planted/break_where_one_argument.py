"""`torch.where` with one argument has as many rows as elements are true."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "dynamic output shape")]


def target(scores):
    scores = scores.softmax(-1)
    kept = torch.where(scores > 0.3)[0]  # HERE
    return scores[kept] * 2


def check(**options):
    return check_compile(target, torch.randn(5), backend="eager", fullgraph=False, **options)
