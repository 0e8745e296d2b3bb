"""Two steps of SGD with momentum whose gradients the caller has set, checked as the function `step`."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


def check(**options):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(3, 4)).sum().backward()
    weight, grad = model.weight.detach().clone(), model.weight.grad
    report = check_compile(
        optimizer.step, calls=[call(), call()], backend="aot_eager", max_graph_breaks=9, max_recompiles=9, **options
    )
    assert model.weight.grad is grad and torch.equal(model.weight, weight)
    return report
