"""A memo in the default of a keyword-only argument, in which compiled code writes nothing."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "memo")]


def target(x, *, memo={}):  # noqa: B006
    if not torch.compiler.is_compiling():
        memo["last"] = 4
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
