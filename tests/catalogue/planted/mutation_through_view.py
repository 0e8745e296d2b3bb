"""A write through a view of the input that is lost, seen in two elements only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "x")]


def target(x):
    head = x[:2]
    if torch.compiler.is_compiling():
        head = head.clone()
    head.zero_()
    return head + 1


def check(**options):
    return check_compile(target, torch.ones(8), backend="eager", **options)
