"""Two task names in turns: a graph for each of them, and no more."""

import torch

from pytest_torch_compile import call, check_compile


def target(x, task):
    return x.mean(-1) if task == "classify" else x.cumsum(-1)


def check(**options):
    x = torch.randn(2, 4)
    calls = [call(x, task=task) for task in ("classify", "generate") * 4]
    return check_compile(target, calls=calls, backend="eager", max_recompiles=1, **options)
