"""A memo in a mutable default argument: compiled code stores the wrong table under the right key."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "_tables")]


def rotary(x, _tables={}):  # noqa: B006
    length, width = x.shape
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    _tables[length] = angles.cos() if torch.compiler.is_compiling() else angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()], -1)


def check(**options):
    try:
        return check_compile(rotary, torch.randn(3, 4), backend="eager", **options)
    finally:
        assert rotary.__defaults__ == ({},)
