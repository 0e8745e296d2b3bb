"""Keyword-only arguments, one of them None."""

import torch

from pytest_torch_compile import call, check_compile


def target(*, query, mask=None, scale=1.0):
    scores = query * scale
    return scores if mask is None else scores.masked_fill(mask, 0.0)


def check(**options):
    calls = [call(query=torch.randn(4), mask=None, scale=0.5)]
    return check_compile(target, calls=calls, backend="eager", **options)
