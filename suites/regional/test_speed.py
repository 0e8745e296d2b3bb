"""Practice 19 in docs/coverage.md, on a GPU: the captioner with compiled repeated blocks, compared with eager.

Published (A100, torch 2.7): 7.78 steps/s for the whole model, 7.61 for its blocks, cold starts of 196 s and 80 s.
`suites/captioning/test_speed.py::test_step[default]` measures the whole model, and `benchmarks/coverage` the cold
starts.
"""

import pytest
import torch

from ..captioning.models import on_device, published_captions
from ..training import steps
from .blocks import compile_blocks

LAYERS = 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="speed is gated on a CUDA device only")
def test_step(compile_benchmark):
    step, batch = steps.published_step(LAYERS), on_device(published_captions([256] * 64))

    compile_benchmark(step, kwargs=batch, compile=lambda target: steps.module(target, compile_blocks))
