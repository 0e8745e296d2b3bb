"""A context variable that is set for the length of the call."""

import contextvars

import torch

from pytest_torch_compile import check_compile

LEVEL = contextvars.ContextVar("level", default=0)


def target(x):
    token = LEVEL.set(2)
    y = x.sin() * LEVEL.get()
    LEVEL.reset(token)
    return y + 1


def check(**options):
    report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert LEVEL.get() == 0
    return report
