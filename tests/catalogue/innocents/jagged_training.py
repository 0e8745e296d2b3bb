"""A jagged nested tensor through a linear layer, in training."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    x = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return check_compile(
        nn.Linear(4, 4), x, train=True, backend="aot_eager", max_graph_breaks=9, max_recompiles=9, **options
    )
