"""Two steps behind a gradient scaler, under autocast."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

SCALE = 1024.0


class Scaled:
    """An optimizer behind a gradient scaler."""

    def __init__(self, params):
        self.sgd = torch.optim.SGD(params, lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
        self.scaler.scale(torch.zeros(()))

    def step(self):
        self.scaler.step(self.sgd)
        self.scaler.update()


def loss(output):
    return output.float().square().mean() * SCALE


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


def check(**options):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    calls = [call(torch.randn(8, 8)).under(autocast)]
    how = {"train": loss, "optimizer": Scaled, "steps": 2}
    return check_compile(model, calls=calls, backend="aot_eager", **how, **options)
