"""The model is switched to eval between two calls."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("recompile", "training")]


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = torch.randn(2, 4)
    calls = [call(x).before(lambda target: target.train()), call(x).before(lambda target: target.eval())]
    return check_compile(model, calls=calls, backend="eager", **options)
