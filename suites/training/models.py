"""A model small enough for Inductor in a few seconds."""

from typing import NamedTuple

import torch
from torch import nn


class Output(NamedTuple):
    """The output of the model."""

    loss: torch.Tensor


class Regression(nn.Module):
    """Two layers that compute their own loss, as transformers models do."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Output:
        return Output(nn.functional.mse_loss(self.layers(x), y))
