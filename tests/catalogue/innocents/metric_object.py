"""A callable metric that adds each batch to its confusion matrix in place, right in both legs."""

import torch

from pytest_torch_compile import check_compile


class ConfusionMatrix:
    def __init__(self, classes):
        self.classes = classes
        self.confusion = torch.zeros(classes, classes, dtype=torch.long)

    def __call__(self, predicted, truth):
        cells = truth * self.classes + predicted
        counts = torch.zeros(self.classes**2, dtype=torch.long).scatter_add_(0, cells, torch.ones_like(cells))
        self.confusion += counts.view(self.classes, self.classes)
        return self.confusion.diagonal().sum() / self.confusion.sum()


def check(**options):
    metric = ConfusionMatrix(3)
    calls = [(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 2, 2, 1])), (torch.tensor([0, 1]), torch.tensor([0, 1]))]
    report = check_compile(metric, calls=calls, backend="eager", max_recompiles=1, **options)
    assert not metric.confusion.any()
    return report
