"""An index that is int32 when compiled and int64 in eager."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "int32")]


def target(x):
    index = x.argmax(-1)
    return index.int() if torch.compiler.is_compiling() else index


def check(**options):
    return check_compile(target, torch.randn(3, 4), backend="eager", **options)
