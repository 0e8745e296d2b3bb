"""A module that refuses to be copied or pickled, and holds what refuses as well."""

import threading

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Connection:
    def __reduce_ex__(self, protocol):
        raise TypeError("a connection is not copied")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.connection, self.lock = Connection(), threading.RLock()
        self.steps = 0

    def __deepcopy__(self, memo):
        raise RuntimeError("this model exists once")

    __reduce_ex__ = __copy__ = __deepcopy__

    def forward(self, x):
        self.steps += 1
        return self.linear(x).tanh()


def check(**options):
    model = Model()
    report = check_compile(model, torch.randn(2, 4), train=True, backend="aot_eager", **options)
    assert model.steps == 0
    return report
