"""A function that steps SGD and then decays the weights, in eager only; the caller has set the gradients."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("mutation|state", "")]
ALSO = {"mutation", "state"}


def check(**options):
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    @torch.no_grad()
    def advance():
        optimizer.step()
        weight.mul_(1.0 if torch.compiler.is_compiling() else 0.5)

    return check_compile(advance, calls=[call()], max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
