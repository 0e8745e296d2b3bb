"""The stance `fail_on_recompile` of a serving loop leaked in: torch refuses the very first compilation."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("compile-error", "fail_on_recompile")]


def target(x):
    return x.sin() * 2


def check(**options):
    with torch.compiler.set_stance("fail_on_recompile"):
        return check_compile(target, torch.randn(4), backend="eager", **options)
