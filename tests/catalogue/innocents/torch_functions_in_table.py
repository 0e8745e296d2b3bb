"""A table of torch's own functions, classes and dtypes in a closure."""

import torch
from torch.nn import functional

from pytest_torch_compile import check_compile


def check(**options):
    table = {"relu": functional.relu, "sum": torch.sum, "add": torch.ops.aten.add.Tensor, "kind": torch.float64}

    def target(x):
        y = table["add"](table["relu"](x), 1)
        return table["sum"](y).to(table["kind"])

    report = check_compile(target, torch.randn(8), backend="aot_eager", **options)
    assert table["relu"] is functional.relu
    return report
