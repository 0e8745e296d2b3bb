"""The recompile limit of 1 that leaked in, with fullgraph: torch raises instead of falling back."""

import torch

from pytest_torch_compile import check_compile

# torch 2.6 knows the limit as cache_size_limit only.
LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
EXPECT = [("eager-fallback", LIMIT)]


def pool(x, kind):
    return x.mean(-1) if kind == "mean" else x.amax(-1)


def check(**options):
    x = torch.randn(2, 4)
    with torch._dynamo.config.patch({LIMIT: 1}):
        return check_compile(pool, calls=[(x, "mean"), (x, "max")], backend="eager", max_recompiles=1, **options)
