"""The model's signature names `step`, `warm_up` and `tolerance`, which only look like options of the check."""

import torch

from pytest_torch_compile import check_compile


def schedule(x, step, warm_up=10, tolerance=1e-3):
    factor = min(1.0, step / warm_up)
    return torch.where(x.abs() < tolerance, torch.zeros_like(x), x * factor)


def check(**options):
    return check_compile(schedule, torch.randn(4), step=5, warm_up=20, tolerance=0.1, backend="eager", **options)
