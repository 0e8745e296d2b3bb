"""A bias table behind `lru_cache`: eager fills the cache, dynamo traces through it."""

import functools

import torch

from pytest_torch_compile import check_compile


@functools.lru_cache(maxsize=8)
def relative_positions(length):
    steps = torch.arange(length)
    return (steps[:, None] - steps[None, :]).abs()


def target(scores):
    return (scores - relative_positions(scores.shape[-1]) * 0.5).softmax(-1)


def check(**options):
    return check_compile(target, torch.randn(5, 5), backend="eager", **options)
