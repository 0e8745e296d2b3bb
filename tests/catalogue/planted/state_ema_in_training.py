"""Shadow weights in a plain dict over three training steps, with another decay in compiled code."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "shadow")]


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.shadow = {name: p.detach().clone() for name, p in self.linear.named_parameters()}

    def forward(self, x):
        decay = 0.99 if torch.compiler.is_compiling() else 0.9
        for name, parameter in self.linear.named_parameters():
            self.shadow[name] = self.shadow[name] * decay + parameter.detach() * (1 - decay)
        return self.linear(x).square().mean()


def sgd(params):
    return torch.optim.SGD(params, lr=0.1)


def check(**options):
    return check_compile(
        Averaged(), torch.randn(3, 4), backend="aot_eager", train=True, optimizer=sgd, steps=3, **options
    )
