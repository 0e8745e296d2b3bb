"""A callable metric that adds each batch to its confusion matrix in place, twice when compiled."""

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "confusion")]


class ConfusionMatrix:
    def __init__(self, classes):
        self.classes = classes
        self.confusion = torch.zeros(classes, classes, dtype=torch.long)

    def __call__(self, predicted, truth):
        cells = truth * self.classes + predicted
        counts = torch.zeros(self.classes**2, dtype=torch.long).scatter_add_(0, cells, torch.ones_like(cells))
        counts = counts.view(self.classes, self.classes)
        self.confusion.add_(counts)
        if torch.compiler.is_compiling():
            self.confusion.add_(counts)
        return counts.diagonal().sum() / counts.sum()


def check(**options):
    metric = ConfusionMatrix(3)
    try:
        return check_compile(metric, torch.tensor([0, 1, 2, 1]), torch.tensor([0, 2, 2, 1]), backend="eager", **options)
    finally:
        assert not metric.confusion.any()
