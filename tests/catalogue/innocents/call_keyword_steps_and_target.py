"""A loss with the keywords `target` and `steps`, which are the check's own words too."""

import torch

from pytest_torch_compile import call, check_compile


def diffusion_loss(x, *, target, steps=1, seed=0):
    for _ in range(steps):
        x = x - 0.1 * (x - target)
    return (x - target).square().mean() + seed


def check(**options):
    calls = [call(torch.randn(4), target=torch.zeros(4), steps=3, seed=1)]
    return check_compile(diffusion_loss, calls=calls, backend="eager", **options)
