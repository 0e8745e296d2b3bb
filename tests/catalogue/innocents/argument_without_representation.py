"""An argument whose `repr`, truth and length raise, as with a proxy of a closed connection."""

import torch

from pytest_torch_compile import check_compile


class Proxy:
    scale = 2.0

    def __repr__(self):
        raise ConnectionError("closed")

    __bool__ = __len__ = __repr__


def scaled(x, proxy):
    return x.sin() * proxy.scale


def check(**options):
    return check_compile(scaled, torch.randn(4), Proxy(), backend="eager", **options)
