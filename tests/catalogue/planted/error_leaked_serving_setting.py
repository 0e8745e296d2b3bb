"""`error_on_recompile` leaked in, so that torch raises in place of a recompile: the setting is named, and the guard."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("compile-error", "error_on_recompile"), ("compile-error", "causal == True")]


def target(x, causal):  # HERE
    return x.tril() if causal else x


def check(**options):
    x = torch.randn(4, 4)
    calls = [(x + 1, True), (x * 2, False)]
    with torch._dynamo.config.patch(error_on_recompile=True):
        return check_compile(target, calls=calls, backend="eager", **options)
