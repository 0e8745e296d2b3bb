"""A tuple that forbids `len()` as an argument: the function takes its first element."""

import torch

from pytest_torch_compile import check_compile


class Pair(tuple):
    def __len__(self):
        raise NotImplementedError("a pair has no length")


def target(x, pair):
    return x.sin() * 2


def check(**options):
    return check_compile(
        target,
        torch.randn(4),
        Pair((torch.ones(4), 2)),
        max_graph_breaks=9,
        max_recompiles=9,
        backend="eager",
        **options,
    )
