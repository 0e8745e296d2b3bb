"""A break deep inside torch's own packed-sequence code, caused by one line of the user's."""

import torch
from torch.nn.utils.rnn import pack_padded_sequence

from pytest_torch_compile import check_compile

EXPECT = [("graph-break", "pack_padded_sequence")]


def target(x, lengths):
    y = x.sin()
    packed = pack_padded_sequence(y, lengths, batch_first=True)  # HERE
    return packed.data * 2


def check(**options):
    return check_compile(target, torch.randn(2, 3, 1), torch.tensor([3, 2]), backend="eager", **options)
