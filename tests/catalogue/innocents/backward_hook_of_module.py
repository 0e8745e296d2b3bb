"""Full backward hooks that keep the gradients of outputs, and a forward hook that keeps what it saw."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model, kept = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), []
    model[0].register_full_backward_hook(lambda module, inputs, outputs: None)
    model[1].register_forward_hook(lambda module, args, output: output * 2)
    model.register_forward_hook(lambda module, args, output: kept.append(output.shape))
    report = check_compile(
        model, torch.randn(3, 4), train=True, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
    assert kept == []
    return report
