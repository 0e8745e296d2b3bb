"""A benchmark left the recompile limit at 1: the second length of the guarded loop runs in eager."""

import torch

from pytest_torch_compile import compile_guard

# torch 2.6 knows the limit as cache_size_limit only.
LIMIT = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") else "cache_size_limit"
EXPECT = [("eager-fallback", LIMIT)]


def check(**options):
    torch._dynamo.reset()
    step = torch.compile(lambda x: x.softmax(-1), backend="eager", dynamic=False)
    with torch._dynamo.config.patch({LIMIT: 1}), compile_guard(max_recompiles=4) as seen:
        for length in (4, 8, 12):
            step(torch.randn(2, length))
    return seen
