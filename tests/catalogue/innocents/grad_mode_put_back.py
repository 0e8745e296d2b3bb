"""Grad mode is switched off by hand for a part, and put back."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x.sin()
    torch.set_grad_enabled(before)
    return y + x


def check(**options):
    return check_compile(
        target,
        torch.randn(4, requires_grad=True),
        train=True,
        max_graph_breaks=9,
        max_recompiles=9,
        backend="eager",
        **options,
    )
