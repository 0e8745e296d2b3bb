"""A memoised helper notes each size that it computes a table for, in eager only."""

import functools

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "COMPUTED")]

COMPUTED = []


@functools.lru_cache(maxsize=None)  # noqa: UP033
def table(size):
    if not torch.compiler.is_compiling():
        COMPUTED.append(size)
    return size * 2.0


def target(x):
    return x.sin() * table(x.shape[0])


def check(**options):
    table.cache_clear()
    try:
        return check_compile(target, torch.randn(4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    finally:
        assert COMPUTED == []
