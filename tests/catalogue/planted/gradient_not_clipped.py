"""Gradients that the caller has are clipped to a norm, in eager only."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("gradient|state|mutation", "")]


def check(**options):
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.full((3,), 10.0)

    def clip():
        if torch.compiler.is_compiling():
            return weight.grad.norm()
        return nn.utils.clip_grad_norm_([weight], 1.0)

    return check_compile(clip, calls=[call()], max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
