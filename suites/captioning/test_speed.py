"""Practices 13, 14, 16, 17 and 18 in docs/coverage.md, on a GPU: the training speed of the captioner with each of the
published practices.

Published steps/s (A100, torch 2.7, batch 64, 256 tokens, bf16 autocast, Adam): 3.11 in eager; 5.17 compiled; 5.54 with
the best mode, 5.32 with the optimizer compiled, 5.28 with static gradients and `foreach_map`; on captions of changing
length 4.73 in eager, 7.78, 7.77 and 7.77 with the dynamic strategies, 8.04 with static shapes; 7.93 with encoder and
decoder apart; a start from the compile cache 3.5x faster. Widths, vocabulary, batch size and lengths are the same as
published. There are two layers instead of twelve, and captions of changing length use batches of 16, so that a case
takes seconds. `benchmarks/coverage` measures the model with all twelve layers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import torch

from pytest_torch_compile import padded

from ..optimizers.variants import foreach_map_adam, static_gradients
from ..training import steps
from .apart import compile_parts, without_pooler
from .models import on_device, published_captions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="speed is gated on a CUDA device only"),
]
LAYERS, BATCH, LONGEST = 2, 64, 256
LENGTHS = [130, 197, 250]


@dataclass(frozen=True)
class Practice:
    """The parts of the step that are compiled, and how they are compiled."""

    model: dict[str, Any] = field(default_factory=dict)
    update: dict[str, Any] | None = None
    how: Callable[..., Any] = steps.optimizer_only

    def __call__(self, step: steps.TrainStep) -> steps.TrainStep:
        step = steps.module(step, partial(torch.compile, **self.model))
        return step if self.update is None else self.how(step, partial(torch.compile, **self.update))


PRACTICES = {
    "default": Practice(),
    "reduce-overhead": Practice({"mode": "reduce-overhead"}),
    "compiled-optimizer": Practice(update={}),
    "static-gradients": Practice(update={"mode": "reduce-overhead"}, how=static_gradients),
    "foreach-map": Practice(update={}, how=foreach_map_adam),
}


@pytest.mark.parametrize("name", PRACTICES)
def test_step(compile_benchmark, name):
    step = steps.published_step(LAYERS, keep_gradients=name == "static-gradients")
    batch = on_device(published_captions([LONGEST] * BATCH))

    compile_benchmark(step, kwargs=batch, compile=PRACTICES[name])


@pytest.mark.slow
def test_step_from_a_cold_and_a_warm_cache(compile_benchmark):
    step, batch = steps.published_step(1), on_device(published_captions([LONGEST] * BATCH))

    compile_benchmark(step, kwargs=batch, compile=PRACTICES["default"], cold_start=True)


class Lengths:
    """One training step for each of several batches, whose tensors are passed one batch after the other."""

    def __init__(self, step: steps.TrainStep, marked: bool = False) -> None:
        self.step = step
        self.marked = marked

    def __call__(self, *tensors: torch.Tensor) -> None:
        for pixels, labels, mask in zip(*[iter(tensors)] * 3, strict=True):
            if self.marked:
                # mark_dynamic itself is rejected here: see test_lengths.py.
                torch._dynamo.maybe_mark_dynamic(labels, 1)
                torch._dynamo.maybe_mark_dynamic(mask, 1)
            self.step(pixel_values=pixels, labels=labels, decoder_attention_mask=mask)


def in_lengths(how: Callable[[Any], Any]) -> Callable[[Lengths], Lengths]:
    def compile(target: Lengths) -> Lengths:
        target.step = steps.module(target.step, how)
        return target

    return compile


STRATEGIES = {
    "automatic-dynamic": (8, torch.compile),
    "maybe-mark-dynamic": (8, torch.compile),
    "dynamic-true": (8, partial(torch.compile, dynamic=True)),
    "static-shapes": (32, partial(torch.compile, dynamic=False)),
    "parts": (8, lambda model: compile_parts(without_pooler(model))),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_changing_lengths(compile_benchmark, name):
    multiple, how = STRATEGIES[name]
    target = Lengths(steps.published_step(LAYERS), marked=name == "maybe-mark-dynamic")
    batches = [on_device(published_captions([n] * 16)) for n in padded(LENGTHS, multiple=multiple)]
    tensors = [tensor for batch in batches for tensor in batch.values()]

    compile_benchmark(target, *tensors, compile=in_lengths(how))
