"""Two steps of Adam whose gradients the caller has set."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def check(**options):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    report = check_compile(
        optimizer.step, calls=[call(), call()], backend="aot_eager", max_graph_breaks=9, max_recompiles=9, **options
    )
    assert not optimizer.state
    return report
