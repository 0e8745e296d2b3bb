"""A named tuple as the output."""

from typing import NamedTuple

import torch

from pytest_torch_compile import check_compile


class Output(NamedTuple):
    loss: torch.Tensor
    logits: torch.Tensor


def target(x):
    return Output(loss=x.sum(), logits=x.sin())


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
