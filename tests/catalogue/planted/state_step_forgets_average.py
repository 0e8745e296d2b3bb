"""An optimizer whose compiled step does not keep its running average."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("mutation|state", "")]
ALSO = {"mutation", "state"}


class Averaging(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=0.1))
        for p in self.param_groups[0]["params"]:
            self.state[p]["average"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            average = self.state[p]["average"]
            p.sub_((average * 0.9 + p.grad * 0.1) * 0.1)
            if not torch.compiler.is_compiling():
                average.lerp_(p.grad, 0.1)


def check(**options):
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    return check_compile(
        Averaging([weight]).step, calls=[call()], max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
