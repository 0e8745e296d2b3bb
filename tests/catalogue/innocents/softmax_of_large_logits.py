"""A softmax that is written out by the backend: other rounding, largest where values are smallest."""

import torch

from pytest_torch_compile import check_compile


def written_out(gm, example_inputs):
    def run(x):
        shifted = (x - x.amax(-1, keepdim=True)).exp()
        return (shifted / shifted.sum(-1, keepdim=True),)

    return run


def target(x):
    return x.softmax(-1)


def check(**options):
    return check_compile(target, torch.randn(16, 1000) * 20, backend=written_out, **options)
