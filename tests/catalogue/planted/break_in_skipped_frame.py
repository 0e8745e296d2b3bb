"""Graph break under a context manager of the user in a loop: the frame is skipped, its callees are compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


class Section:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def double(x):
    return x * 2


def target(x):
    for _ in range(2):
        with Section():
            x = double(x)
            torch._dynamo.graph_break()  # HERE
    return x


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
