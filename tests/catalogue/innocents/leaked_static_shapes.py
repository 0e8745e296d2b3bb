"""`automatic_dynamic_shapes` was switched off elsewhere: one graph for each of two sizes, as the budget allows."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    calls = [(torch.randn(2, 4),), (torch.randn(3, 4),), (torch.randn(2, 4),)]
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        return check_compile(nn.Linear(4, 4), calls=calls, backend="eager", max_recompiles=1, **options)
