"""A function of the gradient that its input has from before."""

import torch

from pytest_torch_compile import check_compile


def check(**options):
    x = torch.randn(4, requires_grad=True)
    x.square().sum().backward()
    grad = x.grad
    report = check_compile(lambda x: x.grad * 2, x, backend="eager", **options)
    assert x.grad is grad
    return report
