"""Two inputs that are views of one tensor: a write to the first is seen in the second."""

import torch

from pytest_torch_compile import check_compile


def target(first, second):
    first.mul_(2)
    return second + 1


def check(**options):
    base = torch.arange(6.0)
    report = check_compile(target, base[:4], base[2:], backend="aot_eager", **options)
    assert base.tolist() == list(range(6))
    return report
