"""The stance `eager_on_recompile` leaked in: code that was not compiled before never is."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("nothing-compiled", "eager_on_recompile")]


def target(x):
    return x.sin() * 2


def check(**options):
    with torch.compiler.set_stance("eager_on_recompile"):
        return check_compile(target, torch.randn(4), backend="eager", **options)
