"""A wrapper that takes `**kwargs` and hands them on, as model libraries do."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Attention(nn.Module):
    def forward(self, hidden_states, attention_mask=None, head_scale=1.0):
        scores = hidden_states * head_scale
        return scores if attention_mask is None else scores.masked_fill(attention_mask, 0.0)


class Wrapper(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Attention()

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


def check(**options):
    x, mask = torch.randn(2, 4), torch.eye(2, 4, dtype=torch.bool)
    return check_compile(Wrapper(), hidden_states=x, attention_mask=mask, head_scale=0.5, backend="eager", **options)
