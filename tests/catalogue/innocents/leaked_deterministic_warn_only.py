"""`use_deterministic_algorithms(True, warn_only=True)` with a cumulative sum and an index_add."""

import torch

from pytest_torch_compile import check_compile


def target(x, index):
    return torch.zeros(4).index_add(0, index, x).cumsum(0)


def check(**options):
    index = torch.tensor([0, 1, 1, 3])
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        return check_compile(target, torch.randn(4), index, backend="aot_eager", **options)
    finally:
        torch.use_deterministic_algorithms(False)
