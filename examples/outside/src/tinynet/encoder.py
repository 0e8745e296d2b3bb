"""Attention and a feed-forward layer, with residuals around both."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Encoder(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(self.norm(x)).chunk(3, dim=-1)
        x = x + functional.scaled_dot_product_attention(query, key, value)
        return x + self.feed(self.norm(x))
