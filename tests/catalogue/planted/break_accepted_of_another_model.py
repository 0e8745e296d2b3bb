"""The accepted fingerprint is that of another model, which reaches the same helper from its own line."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph break 1 of 1, 0 allowed")]


def synchronise(x):
    torch._dynamo.graph_break()  # HERE, accepted for teacher, met by student
    return x + 1


def teacher(x):
    return synchronise(x.sin()) * 2


def student(x):
    return synchronise(x.cos()).exp()


def check(**options):
    x = torch.randn(4)
    known = [found.fingerprint for found in check_compile(teacher, x, backend="eager", max_graph_breaks=1).graph_breaks]
    return check_compile(student, x, backend="eager", accepted_breaks=known, **options)
