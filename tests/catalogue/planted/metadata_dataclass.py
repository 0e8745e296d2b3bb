"""A dataclass in eager, a dict of the same fields when compiled."""

from dataclasses import dataclass

import torch

from pytest_torch_compile import check_compile

EXPECT = [("metadata", "Output")]


@dataclass
class Output:
    logits: torch.Tensor


def target(x):
    return {"logits": x.sin()} if torch.compiler.is_compiling() else Output(logits=x.sin())


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
