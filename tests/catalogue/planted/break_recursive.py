"""A recursive walk over a tree of tensors that breaks at each leaf."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "graph_break")]


def reduce(tree):
    if isinstance(tree, torch.Tensor):
        y = tree.sin()
        torch._dynamo.graph_break()  # HERE, met through several lines of reduce
        return y.sum()
    left, right = tree
    a = reduce(left)
    b = reduce(right)
    return a * b


def check(**options):
    tree = (torch.randn(4), (torch.randn(4), torch.randn(4)))
    options = {"backend": "eager", "fullgraph": False, "max_recompiles": 16, **options}
    return check_compile(reduce, tree, **options)
