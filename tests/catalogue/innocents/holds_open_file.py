"""A module with an open log file and a logger, which it writes to outside of forward."""

import logging
import os

import torch
from torch import nn

from pytest_torch_compile import check_compile


class Logged(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.log_file = open(os.devnull, "w")  # noqa: SIM115
        self.logger = logging.getLogger("innocent.logged")

    def forward(self, x):
        return self.linear(x).tanh()

    def epoch_end(self, epoch):
        self.log_file.write(f"{epoch}\n")
        self.logger.debug("epoch %d", epoch)


def check(**options):
    model = Logged()
    try:
        return check_compile(model, torch.randn(2, 4), backend="eager", **options)
    finally:
        assert not model.log_file.closed
        model.log_file.close()
