"""Graph break behind an attribute that is a property."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]
ALSO = {"nothing-compiled"}


class Schedule:
    @property
    def scale(self):
        torch._dynamo.graph_break()  # HERE
        return 2


schedule = Schedule()


def target(x):
    return x.sin() * schedule.scale


def check(**options):
    return check_compile(target, torch.randn(4), backend="eager", **options)
