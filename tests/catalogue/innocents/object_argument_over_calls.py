"""A cache object that is passed to three calls and filled by them, empty for the caller afterwards."""

import torch

from pytest_torch_compile import call, check_compile


class Cache:
    def __init__(self):
        self.keys, self.position = torch.zeros(3, 4), 0

    def add(self, key):
        self.keys[self.position] = key
        self.position += 1
        return self.keys.sum(0)


def target(x, cache):
    return cache.add(x.sin()) * 2


def check(**options):
    cache = Cache()
    keys = cache.keys
    report = check_compile(
        target,
        calls=[call(torch.randn(4), cache)] * 3,
        max_graph_breaks=9,
        max_recompiles=9,
        backend="eager",
        **options,
    )
    assert cache.keys is keys and cache.position == 0 and not keys.any()
    return report
