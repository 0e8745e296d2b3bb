"""A pipeline sets the stance to `force_eager` while it warms up, and never takes it back."""

import torch

from pytest_torch_compile import compile_guard

EXPECT = [("nothing-compiled", "force_eager")]


def check(**options):
    torch._dynamo.reset()
    step = torch.compile(lambda x: x.sin() * 2, backend="eager")
    with torch.compiler.set_stance("force_eager"), compile_guard(name="pipeline") as seen:
        step(torch.randn(4))
    return seen
