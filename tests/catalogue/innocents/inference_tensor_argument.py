"""An inference tensor as an argument, and a module that was built in inference mode."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def check(**options):
    with torch.inference_mode():
        model, x = nn.Linear(4, 4), torch.randn(2, 4)
    calls = [call(x).under(torch.inference_mode)]
    return check_compile(model, calls=calls, backend="eager", **options)
