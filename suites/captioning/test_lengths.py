"""Practice 16 in docs/coverage.md: captions of changing length, and the number of recompiles under each of four
strategies.

Published steps/s (A100, torch 2.7): 4.73 in eager; 7.78 with automatic dynamic shapes and padding to a multiple of 8,
which the guard of the attention kernel requires; 7.77 with `mark_dynamic`; and 7.77 with `dynamic=True`. With
max-autotune: 8.13, 7.89, and 8.04 for a fixed number of static shapes (multiples of 32) within the recompile limit.

A pitfall is that two dimensions of the same size become one symbol. With `dynamic=True`, if the length of the first
caption equals the batch size, the next different length causes one more recompile.

On an H200 with torch 2.11, Inductor treats lengths up to 16 separately: such a length causes one more recompile under
the dynamic strategies, and torch rejects `mark_dynamic`. In larger models, torch also rejects `mark_dynamic` for other
lengths. With torch 2.15, short lengths cost nothing.
"""

from functools import partial

import pytest
import torch
from packaging.version import Version

from pytest_torch_compile import call, padded, random_lengths

from .models import LONGEST, captions, loss_of, on_device, tiny

LENGTHS = random_lengths(6, low=9, high=LONGEST - 16, seed=5)
LONG = random_lengths(6, low=17, high=LONGEST - 16, seed=5)  # see the module docstring for lengths up to 16
DYNAMIC = {"labels": 1, "decoder_attention_mask": 1}


@pytest.fixture
def check(compile_check, compile_device):
    """A function that checks training with captions of these lengths, and returns the number of recompiles."""
    autocast = partial(torch.autocast, compile_device.type, torch.bfloat16)

    def run(lengths, **options):
        batches = [captions([n - 4, n - 1, n], seed=n) for n in lengths]
        calls = [call(**b).under(autocast).named(f"length={n}") for b, n in zip(batches, lengths, strict=True)]
        return len(compile_check(tiny(), calls=calls, train=loss_of, **options).recompiles)

    return run


STRATEGIES = {
    "automatic-dynamic": ({}, 1),
    "mark-dynamic": ({"dynamic_dims": DYNAMIC}, 0),
    "dynamic-true": ({"dynamic": True}, 0),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_dynamic_strategies(check, name):
    options, recompiles = STRATEGIES[name]

    assert check(padded(LONG, multiple=8), max_recompiles=recompiles, **options) == recompiles


def test_static_shapes_cost_one_recompile_each(check):
    lengths = padded(LENGTHS, multiple=16)
    shapes = len(set(lengths))

    assert check(lengths, dynamic=False, max_recompiles=shapes - 1) == shapes - 1


REFUSED = pytest.mark.compile_known_failure(
    "Inductor makes a length up to 16 a constant, which mark_dynamic forbids",
    kind=["recompile", "compile-error"],
    torch="==2.11.*",
)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="Inductor makes short lengths constant only on CUDA devices")
@pytest.mark.torch_compile(backend="inductor")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[REFUSED] if n == "mark-dynamic" else []) for n in STRATEGIES])
def test_short_caption_costs_one_more_on_a_gpu_before_torch_2_15(compile_check, name):
    options, recompiles = STRATEGIES[name]
    more = int(Version(Version(torch.__version__).base_version) < Version("2.15"))
    autocast = partial(torch.autocast, "cuda", torch.bfloat16)
    lengths = padded(LENGTHS, multiple=8)
    calls = [call(**on_device(captions([n - 4, n - 1, n], seed=n))).under(autocast) for n in lengths]

    report = compile_check(tiny().cuda(), calls=calls, train=loss_of, max_recompiles=recompiles + more, **options)

    assert len(report.recompiles) == recompiles + more
    assert not more or "17 <= labels.size()[1]" in report.recompiles[-1].guard


# The guard that causes the recompile comes from dynamo, so the recompile occurs with any backend.
@pytest.mark.torch_compile(backend="eager")
def test_caption_as_long_as_the_batch_is_large_costs_dynamic_true_one_more(compile_check):
    calls = [call(**captions([n] * 8)) for n in (8, 16, 24)]

    report = compile_check(tiny(), calls=calls, train=loss_of, dynamic=True, max_recompiles=1)

    assert [recompile.call for recompile in report.recompiles] == [2]
    assert "labels.size()[1] == pixel_values.size()[0]" in report.recompiles[0].guard
