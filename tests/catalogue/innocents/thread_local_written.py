"""A value in thread-local storage that both write."""

import threading

import torch

from pytest_torch_compile import check_compile

LOCAL = threading.local()
LOCAL.step = 0


def target(x):
    y = x.sin()
    LOCAL.step = 1
    return y * 2


def check(**options):
    report = check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert LOCAL.step == 0
    return report
