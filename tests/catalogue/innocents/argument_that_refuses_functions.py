"""An argument of a tensor class that refuses all functions of torch; the function does not use it."""

import torch

from pytest_torch_compile import check_compile


class Label(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        raise TypeError(f"{function} cannot be applied to a label")


def target(x, label):
    return x.sin() * 2


def check(**options):
    label = torch.ones(2).as_subclass(Label)
    return check_compile(target, torch.randn(4, requires_grad=True), label, train=True, backend="eager", **options)
