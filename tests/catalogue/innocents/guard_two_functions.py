"""A guarded region that compiles an encoder and a decoder, each once."""

import torch
from torch import nn

from pytest_torch_compile import compile_guard


def check(**options):
    torch._dynamo.reset()
    encoder = torch.compile(nn.Linear(4, 2), backend="eager")
    decoder = torch.compile(lambda x: x.sigmoid() * 2, backend="eager")
    with compile_guard(name="autoencoder") as seen:
        for _ in range(3):
            decoder(encoder(torch.randn(2, 4)))
    return seen
