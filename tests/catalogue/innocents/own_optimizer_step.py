"""An optimizer of one's own with a state for each parameter, over gradients that the caller has set."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


class Lion(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, dict(lr=0.1))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                average = self.state[p].setdefault("average", torch.zeros_like(p))
                p.sub_(group["lr"] * torch.sign(average * 0.9 + p.grad * 0.1))
                average.mul_(0.99).add_(p.grad, alpha=0.01)


def check(**options):
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.tensor([1.0, -2.0, 3.0])
    return check_compile(
        Lion([weight]).step,
        calls=[call(), call()],
        backend="aot_eager",
        max_graph_breaks=9,
        max_recompiles=9,
        **options,
    )
