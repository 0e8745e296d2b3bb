"""An optimizer whose compiled step is twice as long, over gradients that the caller has set."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile

EXPECT = [("mutation|state|numerics|gradient", "")]
ALSO = {"mutation", "state", "numerics", "gradient"}


class Descent(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=0.1))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.sub_(p.grad * group["lr"] * (2 if torch.compiler.is_compiling() else 1))


def check(**options):
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.ones(3)
    return check_compile(
        Descent([weight]).step, calls=[call(), call()], max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
