"""`torch.where` with three arguments has a fixed shape, and a mask in place of a branch."""

import torch

from pytest_torch_compile import check_compile


def target(scores):
    scores = scores.softmax(-1)
    return torch.where(scores > 0.3, scores, torch.zeros_like(scores))


def check(**options):
    return check_compile(target, torch.randn(5), backend="eager", fullgraph=False, **options)
