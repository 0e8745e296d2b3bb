"""A dataclass of options as an argument, the same for each call."""

from dataclasses import dataclass

import torch

from pytest_torch_compile import check_compile


@dataclass
class Config:
    scale: float = 0.5
    causal: bool = True


def target(x, config):
    y = x * config.scale
    return y.tril() if config.causal else y


def check(**options):
    config = Config()
    calls = [(torch.randn(4, 4), config), (torch.randn(4, 4), config)]
    return check_compile(target, calls=calls, backend="eager", **options)
