"""The target draws from Python's own random module."""

import random

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x * random.uniform(0, 1) + random.randint(0, 4)


def check(**options):
    return check_compile(target, torch.ones(4), backend="eager", **options)
