"""A wrong value in a field of a dataclass, which tree utilities do not look into."""

from dataclasses import dataclass

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "hidden")]


@dataclass
class Output:
    logits: torch.Tensor
    hidden: torch.Tensor


def target(x):
    return Output(logits=x.sin(), hidden=x.cos() + 0.01 if torch.compiler.is_compiling() else x.cos())


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
