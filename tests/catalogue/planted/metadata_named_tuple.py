"""A named tuple in eager, a plain tuple when compiled."""

from typing import NamedTuple

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "Output")]


class Output(NamedTuple):
    loss: torch.Tensor
    logits: torch.Tensor


def target(x):
    output = Output(x.sum(), x.sin())
    return tuple(output) if torch.compiler.is_compiling() else output


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
