"""An operator that draws from the global generator, several times over several calls."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x + torch.randn_like(x) * torch.rand(1) + torch.randint(0, 10, (4,))


def check(**options):
    calls = [(torch.zeros(4),), (torch.ones(4),)]
    return check_compile(target, calls=calls, backend="aot_eager", **options)
