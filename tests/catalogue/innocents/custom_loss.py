"""A loss of the user's own over a dict of outputs."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, x, labels):
        logits = self.linear(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits.detach()}


def check(**options):
    labels = torch.tensor([0, 2])
    return check_compile(
        Model(), torch.randn(2, 4), labels, backend="aot_eager", train=lambda output: output["loss"], **options
    )
