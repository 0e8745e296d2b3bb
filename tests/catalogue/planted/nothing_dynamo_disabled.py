"""Dynamo is switched off by its config."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("nothing-compiled", "torch._dynamo.config.disable is True")]


def target(x):
    return x.sin() * 2


def check(**options):
    with torch._dynamo.config.patch(disable=True):
        return check_compile(target, torch.randn(4), backend="eager", **options)
