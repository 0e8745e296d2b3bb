"""Another test left the recompile limit at 1: a model that needs two graphs falls back to eager."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

# torch 2.6 knows the limit as cache_size_limit only.
LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
EXPECT = [("eager-fallback", LIMIT)]


def check(**options):
    calls = [(torch.randn(2, 4),), (torch.randn(3, 4),)]
    options = {"backend": "eager", "fullgraph": False, "dynamic": False, "max_recompiles": 1, **options}
    with torch._dynamo.config.patch({LIMIT: 1}):
        return check_compile(nn.Linear(4, 4), calls=calls, **options)
