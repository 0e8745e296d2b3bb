"""One tensor that is passed as two arguments."""

import torch

from pytest_torch_compile import check_compile


def target(query, key):
    return query @ key.t()


def check(**options):
    x = torch.randn(3, 4, requires_grad=True)
    return check_compile(target, x, x, backend="aot_eager", train=True, **options)
