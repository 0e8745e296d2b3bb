"""One leaf of a nested output is wrong, the second of a list in a dict."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "hidden")]


def target(x):
    second = x.cos() * (1.01 if torch.compiler.is_compiling() else 1.0)
    return {"logits": x.sin(), "hidden": [x.tanh(), second]}


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", **options)
