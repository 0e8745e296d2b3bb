"""A bound method of a plain object: the tracker's sum is not updated in compiled code."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "loss_sum")]


class Tracker:
    def __init__(self):
        self.loss_sum = torch.zeros(())
        self.updates = 0

    def update(self, prediction, truth):
        loss = (prediction - truth).abs().mean()
        if not torch.compiler.is_compiling():
            self.loss_sum = self.loss_sum + loss
        self.updates += 1
        return loss


def check(**options):
    return check_compile(Tracker().update, torch.randn(4), torch.randn(4), backend="eager", **options)
