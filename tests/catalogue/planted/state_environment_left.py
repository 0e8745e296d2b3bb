"""A variable of the environment that eager sets and compiled code does not."""

import os

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "PLANTED_LEVEL")]


def target(x):
    if not torch.compiler.is_compiling():
        os.environ["PLANTED_LEVEL"] = "2"
    return x.sin() * 2


def check(**options):
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        left = os.environ.pop("PLANTED_LEVEL", None)
        assert left is None
