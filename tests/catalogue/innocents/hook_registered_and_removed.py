"""A forward hook that is registered for the length of a call, and hooks of the caller that stay."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        kept = []
        handle = self.linear.register_forward_hook(lambda module, args, output: kept.append(output))
        y = self.linear(x)
        handle.remove()
        return y + kept[0]


def check(**options):
    model = Model()
    model.linear.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    hooks = dict(model.linear._forward_pre_hooks)
    report = check_compile(model, torch.randn(2, 4), max_graph_breaks=9, max_recompiles=9, backend="eager", **options)
    assert dict(model.linear._forward_pre_hooks) == hooks and not model.linear._forward_hooks
    return report
