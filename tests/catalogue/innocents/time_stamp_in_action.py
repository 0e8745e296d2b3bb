"""A model stamped with the clock and a fresh token before each call: what differs between the legs by its nature."""

import time
import uuid

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


class Stamped(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.started_at = 0.0
        self.request = None

    def forward(self, x):
        return self.linear(x)

    def stamp(self):
        self.started_at = time.perf_counter()
        self.request = uuid.uuid4()


def check(**options):
    calls = [call(torch.randn(2, 4)).before(lambda model: model.stamp())]
    return check_compile(Stamped(), calls=calls, backend="eager", **options)
