"""`automatic_dynamic_shapes` was switched off elsewhere: each batch size compiles again, one more than allowed."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "2 recompiles, 1 allowed")]


class Model(nn.Module):
    def forward(self, x):  # HERE
        return x.softmax(-1)


def check(**options):
    calls = [(torch.randn(batch, 4),) for batch in (2, 3, 4)]
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        return check_compile(Model(), calls=calls, backend="eager", max_recompiles=1, **options)
