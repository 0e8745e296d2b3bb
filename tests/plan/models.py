"""Models of the tests of ``check_plan``, importable by the process that plans."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Two weights that are one, a buffer, and a fused chain between two products."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden = hidden.sigmoid() * self.scale
        return self.second(hidden)

    @torch.compile
    def step(self, x: torch.Tensor) -> torch.Tensor:
        return self.forward(x)


def sees_the_card(x: torch.Tensor) -> torch.Tensor:
    major, minor = torch.cuda.get_device_capability()
    return x * (10 * major + minor)


def with_attention(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(x, x, x)


def with_grouped_attention(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.scaled_dot_product_attention(x, y, y, enable_gqa=True)


def with_a_constant(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x < 3, torch.tensor(2).type_as(x), x)


def raises(x: torch.Tensor) -> torch.Tensor:
    raise KeyError("no such key")


def names_of(**named: torch.Tensor) -> torch.Tensor:
    return named["x"].sin()
