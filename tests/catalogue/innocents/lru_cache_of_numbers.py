"""A memoised helper without side effects: that eager fills its cache and compiled code does not is nobody's business."""

import functools

import torch

from pytest_torch_compile import check_compile


@functools.lru_cache(maxsize=8)
def scale(size):
    return size**-0.5


def target(x):
    return x.sin() * scale(x.shape[0])


def check(**options):
    scale.cache_clear()
    return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
