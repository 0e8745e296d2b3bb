"""A list in a closure that collects hidden states: the compiled leg stores the layer's input in place of its output."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "hidden_states")]


def make_encoder():
    hidden_states = []

    def encode(x):
        for _ in range(2):
            before, x = x, torch.tanh(x * 2)
            hidden_states.append(before if torch.compiler.is_compiling() else x)
        return x

    return encode


def check(**options):
    return check_compile(make_encoder(), torch.randn(4), backend="eager", **options)
