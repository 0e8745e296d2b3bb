"""A hook after accumulation that steps its own parameter and frees the gradient, as memory-saving training does."""

import torch
from torch import nn

from pytest_torch_compile import check_compile


def check(**options):
    model = nn.Linear(4, 2)

    @torch.no_grad()
    def step(parameter):
        parameter.sub_(parameter.grad, alpha=0.1)
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    before = model.weight.detach().clone()
    report = check_compile(model, torch.randn(3, 4), train=True, backend="aot_eager", **options)
    assert torch.equal(model.weight, before) and model.weight._post_accumulate_grad_hooks
    return report
