"""Random numbers after a convolution, whose result Inductor may keep in another layout than eager."""

from __future__ import annotations

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(256, 256, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.convolution(x)
        return nn.functional.dropout(x, 0.5), torch.rand_like(x)


def test_each_element_gets_the_random_number_that_it_gets_in_eager():
    with torch.no_grad():
        check_compile(Noisy().train(), torch.randn(2, 256, 8, 8), backend="inductor")
