"""An input check that is left out when compiled: eager raises on the second call, the compiled leg answers."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("exception", "too long")]


def target(x, limit):
    if not torch.compiler.is_compiling() and x.shape[0] > limit:
        raise ValueError("sequence too long")
    return x.sin() * 2


def check(**options):
    calls = [(torch.randn(4), 4), (torch.randn(4), 2)]
    return check_compile(target, calls=calls, backend="eager", max_recompiles=1, **options)
