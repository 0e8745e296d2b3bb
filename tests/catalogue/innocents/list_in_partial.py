"""A list that a `partial` binds, which both write, and which is as it was for the caller."""

import functools

import torch

from pytest_torch_compile import check_compile


def step(seen, x):
    seen.append(4)
    return x.sin() * 2


def check(**options):
    seen = [1]
    report = check_compile(functools.partial(step, seen), torch.randn(4), backend="eager", **options)
    assert seen == [1]
    return report
