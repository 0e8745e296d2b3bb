"""What the self-test of the action expects to pass."""

import torch
from torch import nn


def test_linear_holds(compile_check):
    compile_check(nn.Linear(8, 8), torch.randn(2, 8), backend="eager")
