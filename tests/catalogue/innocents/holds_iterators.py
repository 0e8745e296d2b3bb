"""A module with an id counter, thread-local storage and a queue, used by its other methods only."""

import itertools
import queue
import threading

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Batched(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.request_ids = itertools.count()
        self.context = threading.local()
        self.pending = queue.Queue()

    def submit(self, x):
        self.context.user = "test"
        self.pending.put((next(self.request_ids), x))

    def forward(self, x):
        return self.linear(x).relu()


def check(**options):
    model = Batched()
    model.submit(torch.ones(4))
    report = check_compile(model, torch.randn(2, 4), backend="eager", **options)
    assert next(model.request_ids) == 1 and model.pending.qsize() == 1 and model.context.user == "test"
    return report
