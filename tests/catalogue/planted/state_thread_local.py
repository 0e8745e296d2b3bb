"""A value in thread-local storage that eager writes and compiled code does not."""

import threading

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "")]

LOCAL = threading.local()
LOCAL.step = 0


def target(x):
    if not torch.compiler.is_compiling():
        LOCAL.step = 1
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
