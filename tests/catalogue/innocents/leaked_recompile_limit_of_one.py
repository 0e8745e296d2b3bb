"""A recompile limit of 1 leaked in, and the model needs no more than one graph."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

# torch 2.6 knows the limit as cache_size_limit only.
LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"


def check(**options):
    calls = [(torch.randn(2, 4),)] * 3
    with torch._dynamo.config.patch({LIMIT: 1}):
        return check_compile(nn.Linear(4, 4), calls=calls, backend="eager", **options)
