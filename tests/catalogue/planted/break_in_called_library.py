"""A call into the standard library that dynamo cannot trace: the place is the user's line, not the library's."""

import json

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "inside ")]


def target(x):
    y = x.sin()
    json.dumps({"mode": "train"})  # HERE
    return y * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
