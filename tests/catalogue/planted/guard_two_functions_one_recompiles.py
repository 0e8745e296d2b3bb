"""Of two functions that a region compiles, the decoder recompiles with each longer prefix."""

import torch

from pytest_torch_compile import compile_guard

EXPECT = [("recompile", "2 recompiles, 1 allowed")]


def encode(x):
    return x.softmax(-1)


def decode(x, position):  # HERE
    return x.cumsum(-1) * position


def check(**options):
    torch._dynamo.reset()
    encoder = torch.compile(encode, backend="eager", dynamic=False)
    decoder = torch.compile(decode, backend="eager", dynamic=False)
    with compile_guard(max_recompiles=1, name="generate") as seen:
        state = encoder(torch.randn(2, 4))
        for position in (1, 2, 3):
            state = decoder(state, position)
    return seen
