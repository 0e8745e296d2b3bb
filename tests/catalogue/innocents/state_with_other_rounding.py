"""An activation kept in bfloat16 that decomposed operators round otherwise than eager's."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Probed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64, dtype=torch.bfloat16)
        self.probe = None
        self.average = torch.zeros(64)

    def forward(self, x):
        y = nn.functional.gelu(self.norm(x)).softmax(-1)
        self.probe = y.detach()
        self.average = self.average * 0.9 + y.detach().float().mean(0) * 0.1
        return y


def check(**options):
    x = torch.randn(32, 64, dtype=torch.bfloat16)
    return check_compile(Probed(), x, backend="aot_eager_decomp_partition", train=True, **options)
