"""Both set a variable of the environment, and set another for a moment; the caller has neither."""

import os

import torch

from pytest_torch_compile import check_compile


@torch.compiler.disable
def announce():
    os.environ["INNOCENT_LEVEL"] = "2"
    os.environ["INNOCENT_MOMENT"] = "1"
    del os.environ["INNOCENT_MOMENT"]


def target(x):
    y = x.sin()
    announce()
    return y * 2


def check(**options):
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        assert os.environ.pop("INNOCENT_LEVEL", None) is None
