"""Graph break in a forward hook of a submodule."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


def scale(module, args, output):
    torch._dynamo.graph_break()  # HERE
    return output * 2


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[0].register_forward_hook(scale)
    return check_compile(model, torch.randn(2, 4), backend="eager", **options)
