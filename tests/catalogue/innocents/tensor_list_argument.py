"""A list of tensors of different shapes and a tuple of flags as arguments."""

import torch

from pytest_torch_compile import check_compile


def target(tensors, flags):
    return [tensor.sin() if flag else tensor for tensor, flag in zip(tensors, flags, strict=True)]


def check(**options):
    tensors = [torch.randn(2), torch.randn(3, 3), torch.randn(())]
    return check_compile(target, tensors, (True, False, True), backend="eager", **options)
