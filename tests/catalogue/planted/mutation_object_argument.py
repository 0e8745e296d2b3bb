"""An object that is passed as an argument is written in eager only."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation|state", "position")]


class Cache:
    def __init__(self):
        self.position = 0


def target(x, cache):
    if not torch.compiler.is_compiling():
        cache.position = 4
    return x.sin() * 2


def check(**options):
    cache = Cache()
    try:
        return check_compile(target, torch.randn(4), cache, backend="eager", **options)
    finally:
        assert cache.position == 0
