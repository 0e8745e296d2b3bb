"""A hook after accumulation clips the gradient; compiled code never registers it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("gradient", "weight")]
ALSO = {"state"}


def clip(parameter):
    parameter.grad.clamp_(-0.1, 0.1)


class Clipped(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        if not torch.compiler.is_compiling():
            self.weight.register_post_accumulate_grad_hook(clip)
        return (x * self.weight).sum() * 10


def check(**options):
    return check_compile(
        Clipped(), torch.ones(4), train=True, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
