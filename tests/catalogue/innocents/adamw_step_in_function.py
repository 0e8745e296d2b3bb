"""A function that takes a step of AdamW with learning rates of a schedule, over gradients that the caller has set."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def check(**options):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(0.1))
    model(torch.ones(3, 4)).sum().backward()

    def advance():
        optimizer.step()

    return check_compile(
        advance, calls=[call(), call()], backend="aot_eager", max_graph_breaks=9, max_recompiles=9, **options
    )
