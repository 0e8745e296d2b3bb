"""A table on the class, shared by all instances, that misses its new entry when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "masks_by_length")]


class CausalMask(nn.Module):
    masks_by_length = {}

    def forward(self, scores):
        length = scores.shape[-1]
        mask = torch.ones(length, length).tril() == 0
        if not torch.compiler.is_compiling():
            self.masks_by_length[length] = mask
        return scores.masked_fill(mask, float("-inf")).softmax(-1)


def check(**options):
    try:
        return check_compile(CausalMask(), torch.randn(5, 5), backend="eager", **options)
    finally:
        assert not CausalMask.masks_by_length
