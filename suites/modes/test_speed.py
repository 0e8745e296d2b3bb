"""Practice 6 in docs/coverage.md, on a GPU: the speedup of each mode in training GPT-2, with a vocabulary whose odd
size benefits from padding.
"""

from functools import partial

import pytest
import torch

from .models import gpt2, loss_of, words

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="speed is gated on a CUDA device only"),
]
MODES = {
    "reduce-overhead": {"mode": "reduce-overhead"},
    "shape-padding": {"options": {"shape_padding": True}},
    "max-autotune": {"mode": "max-autotune"},
    "max-autotune-no-cudagraphs": {"mode": "max-autotune-no-cudagraphs"},
}
# Autotuning this model takes minutes with an empty compile cache.
SLOW = [pytest.mark.slow]


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if "autotune" in name else []) for name in MODES])
def test_training(compile_benchmark, name):
    model = gpt2(layers=2).cuda().bfloat16().train()

    compile_benchmark(model, kwargs=words(8, 128), train=loss_of, compile=partial(torch.compile, **MODES[name]))
