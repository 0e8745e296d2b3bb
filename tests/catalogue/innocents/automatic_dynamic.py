"""One automatic-dynamic recompile, within a budget of one, over five batch sizes."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    calls = [(torch.randn(batch, 4),) for batch in (4, 6, 8, 16, 5)]
    return check_compile(nn.Linear(4, 4), calls=calls, backend="eager", max_recompiles=1, **options)
