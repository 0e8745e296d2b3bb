"""A conftest raises the recompile limit for the whole session."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

# torch 2.6 knows the limit as cache_size_limit only.
LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"


def check(**options):
    with torch._dynamo.config.patch({LIMIT: 64}):
        return check_compile(nn.Linear(4, 4), torch.randn(2, 4), backend="eager", **options)
