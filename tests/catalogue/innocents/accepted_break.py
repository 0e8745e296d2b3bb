"""A break that is accepted by its fingerprint."""

import torch

from pytest_torch_compile import CompileCheckFailed, check_compile


def target(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y * 2


def check(**options):
    x = torch.randn(4)
    try:
        check_compile(target, x, backend="eager", **options)
    except CompileCheckFailed as failure:
        known = [found.fingerprint for found in failure.report.graph_breaks]
    return check_compile(target, x, backend="eager", accepted_breaks=known, **options)
