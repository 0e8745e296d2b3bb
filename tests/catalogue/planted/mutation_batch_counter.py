"""An integer buffer that counts batches is not advanced when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "batches")]


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("batches", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.batches += 1
        return x.sin() * 2


def check(**options):
    return check_compile(Counted(), torch.ones(4), backend="eager", **options)
