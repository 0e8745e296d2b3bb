"""Generation scripts set the default dtype to bf16: random tensors of the check's own must not round to it."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    torch.set_default_dtype(torch.bfloat16)
    try:
        model, x = nn.Linear(8, 8), torch.randn(2, 8)
        return check_compile(model, x, train=True, backend="aot_eager", **options)
    finally:
        torch.set_default_dtype(torch.float32)
