"""A wrapper hands `**kwargs` on in eager and drops them when compiled."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


class Attention(nn.Module):
    def forward(self, x, attention_mask=None, scale=1.0):
        scores = x * scale
        return scores if attention_mask is None else scores.masked_fill(attention_mask, 0.0)


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Attention()

    def forward(self, x, **kwargs):
        return self.inner(x) if torch.compiler.is_compiling() else self.inner(x, **kwargs)


def check(**options):
    x, mask = torch.ones(2, 4), torch.eye(2, 4, dtype=torch.bool)
    return check_compile(Wrapper(), x, attention_mask=mask, scale=0.5, backend="eager", **options)
