"""An embedding with repeated tokens, whose gradient is a sum in an unspecified order."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    tokens = torch.randint(0, 3, (64,))
    return check_compile(nn.Embedding(3, 8), tokens, backend="aot_eager", train=True, **options)
