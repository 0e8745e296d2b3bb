"""A target under `torch.no_grad()` as a decorator, which is torch's own closure around the user's function."""

import torch

from pytest_torch_compile import check_compile


@torch.no_grad()
def momentum_update(average, value):
    return average * 0.9 + value * 0.1


def check(**options):
    return check_compile(
        momentum_update, torch.randn(4), torch.randn(4, requires_grad=True), backend="eager", **options
    )
