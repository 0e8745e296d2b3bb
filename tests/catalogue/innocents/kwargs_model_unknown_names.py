"""`**kwargs` with names of the user's own, some of them given through `call` because options are called alike."""

import torch

from pytest_torch_compile import call, check_compile


def combine(x, **features):
    for name in sorted(features):
        x = x + features[name]
    return x


def check(**options):
    x = torch.randn(4)
    calls = [call(x, colour=torch.ones(4), steps=torch.zeros(4), dynamic=torch.ones(4), tolerance=torch.ones(4))]
    return check_compile(combine, calls=calls, backend="eager", **options)
