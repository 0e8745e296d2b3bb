"""An attribute of an imported module that eager writes and compiled code does not."""

import sys
import types

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "level")]

shared = types.ModuleType("catalogue_shared")
shared.level = 0
sys.modules["catalogue_shared"] = shared


def target(x):
    if not torch.compiler.is_compiling():
        shared.level = 1
    return x.sin() * 2


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
