"""A model that is checked in training and in eval mode, with a budget for the switch."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def check(**options):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    x = torch.randn(3, 4)
    calls = [call(x).before(lambda target: target.train()), call(x).before(lambda target: target.eval())]
    return check_compile(model, calls=calls, backend="eager", max_recompiles=1, **options)
