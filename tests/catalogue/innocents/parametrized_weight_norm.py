"""Weight norm and orthogonality as parametrizations, in training."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(4, 2)),
    )
    return check_compile(
        model, torch.randn(3, 4), train=True, max_graph_breaks=9, max_recompiles=9, backend="eager", **options
    )
