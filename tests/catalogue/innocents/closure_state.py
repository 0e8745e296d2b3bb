"""A closure with a step count, a list and a tensor that the target advances, the same in both legs."""

import torch

from pytest_torch_compile import check_compile


def make_step():
    steps_taken = 0
    norms = []
    average = torch.zeros(4)

    def step(x):
        nonlocal steps_taken
        steps_taken += 1
        average.mul_(0.9).add_(x, alpha=0.1)
        norms.append(average.norm())
        return x - average

    step.state = (norms, average)
    return step


def check(**options):
    step = make_step()
    report = check_compile(step, torch.randn(4), backend="eager", **options)
    assert step.state[0] == [] and not step.state[1].any()
    return report
