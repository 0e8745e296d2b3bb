"""`torch._dynamo.config.disable` was left on by a debugging session, and the finding names it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("nothing-compiled", "config.disable")]


def check(**options):
    with torch._dynamo.config.patch(disable=True):
        return check_compile(nn.Linear(4, 4), torch.randn(2, 4), backend="eager", **options)
