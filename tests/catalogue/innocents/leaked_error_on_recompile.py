"""`error_on_recompile` leaked in from a serving test, and nothing recompiles."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    calls = [(torch.randn(2, 4),), (torch.randn(2, 4),)]
    with torch._dynamo.config.patch(error_on_recompile=True):
        return check_compile(nn.LayerNorm(4), calls=calls, backend="eager", **options)
