"""A residual block with batch norms in training: compiled sums over a channel round more than eager's, for all its elements."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(64), nn.BatchNorm2d(64)])

    def forward(self, x):
        hidden = self.norms[0](self.convs[0](x)).relu()
        return (x + self.norms[1](self.convs[1](hidden))).relu()


def check(**options):
    torch.manual_seed(0)
    return check_compile(Block(), torch.randn(2, 64, 28, 28), train=lambda output: output.square().mean(), **options)
