"""What the self-test of the action expects to fail; tests of this project do not collect it."""

import torch


def branch(x):
    return x + 1 if x.sum() > 0 else x - 1


def test_branch_breaks(compile_check):
    compile_check(branch, torch.randn(8), backend="eager")
