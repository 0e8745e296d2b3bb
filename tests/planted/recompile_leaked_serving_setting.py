"""`error_on_recompile` leaked in: the recompile that the budget does not allow is still named, and so is the setting."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("recompile", "error_on_recompile")]
ALSO = {"compile-error"}


def target(x, causal):  # HERE
    return x.tril() if causal else x


def check(**options):
    x = torch.randn(4, 4)
    calls = [(x + 1, True), (x * 2, False)]
    with torch._dynamo.config.patch(error_on_recompile=True):
        return check_compile(target, calls=calls, backend="eager", **options)
