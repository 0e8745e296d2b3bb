"""A backend that crashes on the second graph only, swallowed by `suppress_errors`."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("eager-fallback", "no cosine")]


def picky(gm, example_inputs):
    if "cos" in gm.code:
        raise RuntimeError("no cosine here")
    return gm.forward


def target(x, wave):  # HERE
    return x.sin() if wave == "sin" else x.cos()


def check(**options):
    x = torch.randn(4)
    calls = [(x, "sin"), (x, "cos")]
    with torch._dynamo.config.patch(suppress_errors=True):
        return check_compile(target, calls=calls, backend=picky, fullgraph=False, max_recompiles=1, **options)
