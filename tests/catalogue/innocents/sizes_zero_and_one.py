"""Batch sizes 0 and 1, which specialise, within a budget that says so."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.sin() * 2


def check(**options):
    calls = [(torch.randn(batch, 4),) for batch in (4, 8, 16, 1, 0, 5)]
    return check_compile(target, calls=calls, backend="eager", max_recompiles=3, **options)
