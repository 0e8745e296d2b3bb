"""Integer and boolean outputs: an argmax and a mask."""

import torch

from pytest_torch_compile import check_compile


def target(x):
    return x.argmax(-1), x > 0, torch.arange(4) + x.shape[0], x.topk(2).indices


def check(**options):
    return check_compile(target, torch.randn(3, 4), backend="aot_eager", **options)
