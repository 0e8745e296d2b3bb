"""`error_on_recompile` is on, and one function is checked twice: each check starts cold and recompiles nothing."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.sin() * 2


def check(**options):
    with torch._dynamo.config.patch(error_on_recompile=True):
        check_compile(target, torch.randn(4), backend="eager", **options)
        return check_compile(target, torch.randn(4, 4), backend="eager", **options)
