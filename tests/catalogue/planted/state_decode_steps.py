"""Three decode steps with a preallocated key cache: the compiled code writes each step's key one row too late."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "key_rows")]
ALSO = {"numerics"}


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)
        self.key_rows = torch.zeros(6, 4)

    def forward(self, x, position):
        slot = position + 1 if torch.compiler.is_compiling() else position
        self.key_rows.index_copy_(0, slot, self.project(x))
        return torch.softmax(x @ self.key_rows.T, dim=-1) @ self.key_rows


@torch.no_grad()
def check(**options):
    calls = [(torch.randn(1, 4), torch.tensor([step])) for step in range(3)]
    return check_compile(Decoder(), calls=calls, backend="eager", **options)
