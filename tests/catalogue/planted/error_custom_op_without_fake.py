"""A custom operator that has no fake implementation."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("compile-error", "planted::no_fake")]
ALSO = {"nothing-compiled"}


@torch.library.custom_op("planted::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def target(x):
    return no_fake(x.sin()) * 2  # HERE


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
