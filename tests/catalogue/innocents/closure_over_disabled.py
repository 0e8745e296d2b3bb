"""A closure over a function that is kept out of compiled code, with a budget for its break."""

import torch

from pytest_torch_compile import check_compile


def check(**options):
    seen = [0.0]

    @torch.compiler.disable
    def log_norm(x):
        seen[0] = float(x.norm())

    def target(x):
        y = x.sin()
        log_norm(y)
        return y * 2

    report = check_compile(target, torch.randn(4), backend="eager", max_graph_breaks=1, **options)
    assert seen == [0.0]
    return report
