"""Twenty residual bf16 layers, where rounding adds up, trained through a backend that rounds less often."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        return x + self.linear(self.norm(x)).tanh()


def wide(gm, example_inputs):
    def run(*args):
        outputs = gm(*(arg.float() if torch.is_tensor(arg) and arg.is_floating_point() else arg for arg in args))
        return tuple(value.bfloat16() for value in outputs)

    return run


def check(**options):
    model = nn.Sequential(*(Block() for _ in range(20))).bfloat16()
    x = torch.randn(8, 32, dtype=torch.bfloat16)
    return check_compile(model, x, backend=wide, train=True, **options)
