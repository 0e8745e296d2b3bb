"""A video model keeps the previous frame: compiled code keeps the result of this one instead."""

import torch
from torch import nn

from pytest_torch_compile import check_compile

EXPECT = [("state", "previous_frame")]
ALSO = {"numerics"}


class Difference(nn.Module):
    def __init__(self):
        super().__init__()
        self.previous_frame = torch.zeros(3, 4)

    def forward(self, frame):
        change = (frame - self.previous_frame).abs()
        self.previous_frame = change if torch.compiler.is_compiling() else frame.clone()
        return change.sqrt()


def check(**options):
    calls = [(torch.rand(3, 4),), (torch.rand(3, 4),)]
    return check_compile(Difference(), calls=calls, backend="eager", **options)
