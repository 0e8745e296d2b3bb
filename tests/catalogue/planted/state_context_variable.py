"""A context variable that eager sets and compiled code does not."""

import contextvars

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "level")]

LEVEL = contextvars.ContextVar("level", default=0)


def target(x):
    if not torch.compiler.is_compiling():
        LEVEL.set(1)
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
