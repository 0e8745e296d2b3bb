"""A schedule in module-level state, a count, a tensor and a list, that the target reads and advances: right in both legs."""

import torch

from pytest_torch_compile import check_compile

steps_done = 0
running_scale = torch.ones(4)
scales = []


def target(x):
    global steps_done
    steps_done += 1
    y = x / running_scale
    running_scale.copy_(running_scale * 0.5 + x.abs().amax(0))
    scales.append(running_scale.clone())
    return y * steps_done


def check(**options):
    calls = [(torch.randn(3, 4),), (torch.randn(3, 4),)]
    report = check_compile(target, calls=calls, backend="eager", max_recompiles=2, **options)
    assert steps_done == 0 and not scales and torch.equal(running_scale, torch.ones(4))
    return report
