"""All calls under inference mode."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def check(**options):
    calls = [call(torch.randn(2, 4)).under(torch.inference_mode) for _ in range(2)]
    return check_compile(nn.Linear(4, 4), calls=calls, backend="eager", **options)
