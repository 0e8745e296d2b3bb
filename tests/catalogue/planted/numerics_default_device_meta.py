"""The default device is `meta`, left there by code that counts parameters: a wrong factor is still found."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("numerics", "")]


def target(x):
    scale = 0.5 if torch.compiler.is_compiling() else 0.25
    return (x * scale).tanh()


def check(**options):
    x = torch.randn(4, device="cpu")
    torch.set_default_device("meta")
    try:
        return check_compile(target, x, backend="eager", **options)
    finally:
        torch.set_default_device(None)
