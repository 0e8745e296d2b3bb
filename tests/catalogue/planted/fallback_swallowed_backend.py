"""A backend that crashes while `suppress_errors` is on: the result equals eager because it is eager."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("eager-fallback", "no kernel")]
ALSO = {"nothing-compiled"}


def broken(gm, example_inputs):
    raise RuntimeError("no kernel for this graph")


def target(x):  # HERE
    return x.sin() * 2


def check(**options):
    with torch._dynamo.config.patch(suppress_errors=True):
        return check_compile(target, torch.randn(4), backend=broken, fullgraph=False, **options)
