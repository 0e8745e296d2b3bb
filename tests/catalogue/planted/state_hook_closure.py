"""A forward hook that collects activations in a dict it closes over, in eager only."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "activations")]


def collect(model):
    activations = {}

    def hook(module, args, output):
        if not torch.compiler.is_compiling():
            activations["norm"] = output.detach().norm()

    model[0].register_forward_hook(hook)
    return model


def check(**options):
    model = collect(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    return check_compile(model, torch.randn(2, 4), backend="eager", **options)
