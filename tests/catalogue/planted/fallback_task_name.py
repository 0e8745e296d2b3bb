"""A task name chosen per request, beyond the recompile limit: the guard on a string has no size to pad."""

import torch

from pytest_torch_compile import call, check_compile

EXPECT = [("eager-fallback", "string"), ("eager-fallback", "task == ")]


def target(x, task):
    return x * len(task)


def check(**options):
    x = torch.randn(4)
    calls = [call(x, task="t" * size) for size in range(1, 12)]
    return check_compile(target, calls=calls, backend="eager", fullgraph=False, max_recompiles=20, **options)
