"""One row of an expanded argument is written, which writes them all; compiled code writes a copy."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("mutation", "wide")]


def target(wide):
    row = wide[0].clone() if torch.compiler.is_compiling() else wide[0]
    row.mul_(2)
    return row.sin() + 1


def check(**options):
    return check_compile(target, torch.ones(1, 4).expand(3, 4), backend="eager", **options)
