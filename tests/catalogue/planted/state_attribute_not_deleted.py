"""A pending gradient scale that eager deletes once it is used, and compiled code leaves behind."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "pending_scale")]


class Unscale:
    def __init__(self):
        self.pending_scale = 128.0

    def __call__(self, gradient):
        scaled = gradient / self.pending_scale
        if not torch.compiler.is_compiling():
            del self.pending_scale
        return scaled


def check(**options):
    return check_compile(Unscale(), torch.randn(4), backend="eager", **options)
