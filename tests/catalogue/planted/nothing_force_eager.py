"""The process runs under the `force_eager` stance, so that compiled code never runs."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("nothing-compiled", "torch.compiler.set_stance is 'force_eager'")]


def target(x):
    return x.sin() * 2


def check(**options):
    with torch.compiler.set_stance("force_eager"):
        return check_compile(target, torch.randn(4), backend="eager", **options)
