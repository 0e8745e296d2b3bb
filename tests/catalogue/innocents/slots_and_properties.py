"""A cache class with `__slots__`, a property that raises before first use, and a `__getattr__` that forwards."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Cache:
    __slots__ = ("_keys", "length")

    def __init__(self):
        self.length = 0

    @property
    def keys(self):
        if not self.length:
            raise RuntimeError("the cache is empty")
        return self._keys

    def store(self, keys):
        self._keys = keys
        self.length = keys.shape[0]


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.cache = Cache()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x):
        keys = self.inner(x)
        self.cache.store(keys)
        return x @ self.cache.keys.T


@torch.no_grad()
def check(**options):
    model = Wrapper()
    report = check_compile(model, torch.randn(3, 4), backend="eager", **options)
    assert model.cache.length == 0
    return report
