"""A custom op defined in the test, which the target closes over."""

import torch

from pytest_torch_compile import check_compile


def check(**options):
    @torch.library.custom_op("innocent::closed_over_roll", mutates_args=())
    def roll_rows(x: torch.Tensor) -> torch.Tensor:
        return x.roll(1, 0)

    @roll_rows.register_fake
    def _(x):
        return torch.empty_like(x)

    def target(x):
        return roll_rows(x) - x

    return check_compile(target, torch.randn(3, 4), backend="eager", **options)
