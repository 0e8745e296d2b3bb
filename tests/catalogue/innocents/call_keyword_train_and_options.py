"""A step with the keywords `train`, `options`, `backend` and `calls`, all of them the model's."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


class Experiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, train=False, options=None, backend="cpu", calls=1):
        y = self.layer(x) * (options or {}).get("scale", 1.0)
        return y * calls if train and backend == "cpu" else y


def check(**options):
    x = torch.randn(2, 4)
    calls = [call(x, train=True, options={"scale": 0.5}, backend="cpu", calls=2)]
    return check_compile(Experiment(), calls=calls, train=True, backend="aot_eager", **options)
