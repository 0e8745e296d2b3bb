"""A variable of the environment that eager deletes and compiled code does not; the caller has it afterwards."""

import os

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "PLANTED_CACHE")]


def target(x):
    if not torch.compiler.is_compiling():
        os.environ.pop("PLANTED_CACHE", None)
    return x.sin() * 2


def check(**options):
    os.environ["PLANTED_CACHE"] = "on"
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        assert os.environ.pop("PLANTED_CACHE", None) == "on"
