"""A model with a forward pre-hook and a forward hook."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def double(module, args):
    return (args[0] * 2,)


def clamp(module, args, output):
    return output.clamp(-1, 1)


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[0].register_forward_pre_hook(double)
    model[1].register_forward_hook(clamp)
    return check_compile(model, torch.randn(2, 4), backend="eager", **options)
