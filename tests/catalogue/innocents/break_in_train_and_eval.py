"""One break met in training mode and again in eval mode, after the recompile that the mode costs."""

import torch
from torch import nn

from pytest_torch_compile import call, check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def measure(self, x):
        torch._dynamo.graph_break()
        return x.abs().mean()

    def forward(self, x):
        y = self.layer(x)
        return y / self.measure(y)


def check(**options):
    x = torch.randn(2, 4)
    calls = [call(x).before(lambda m: m.train()), call(x).before(lambda m: m.eval()), call(x)]
    options = {"backend": "eager", "max_graph_breaks": 1, "max_recompiles": 8, **options}
    return check_compile(Model(), calls=calls, **options)
