"""A dict argument with one more key on the second call."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "batch")]


def target(batch):  # HERE
    return {name: value.sin() for name, value in batch.items()}


def check(**options):
    x = torch.randn(4)
    return check_compile(target, calls=[({"a": x},), ({"a": x, "b": x + 1},)], backend="eager", **options)
