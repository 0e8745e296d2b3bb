"""Practice 27 in docs/coverage.md: after a warm-up over all sizes, no request to a server compiles anything.

As in servers such as vLLM, each batch size runs twice with a dynamic length before the first request. Then requests of
random sizes follow. A request that compiles code takes seconds.
"""

import random

import pytest
import torch

pytest.importorskip("transformers", reason="the serving suite needs transformers")

from pytest_torch_compile import CompileCheckFailed, check_compile, compile_guard, padded, random_lengths, sizes

from ..transformers.inputs import VOCAB
from ..transformers.models import make_llama

BATCHES = (2, 4, 8)
LENGTHS = (16, 24, 64)
REQUESTS = 40


def tokens(batch, length):
    return torch.randint(VOCAB, (batch, length))


def server(backend, model=None):
    """Compile and warm up a model, and return a function that answers a request. Batches are padded to a size from the
    warm-up.
    """
    compiled = torch.compile(model or make_llama().eval(), backend=backend)

    @torch.no_grad()
    def answer(batch, length):
        size = min(size for size in BATCHES if size >= batch)
        return compiled(input_ids=tokens(size, length)).logits[:batch, -1]

    for size in BATCHES:
        for length in LENGTHS:
            answer(size, length)
    return answer


def requests(count=REQUESTS, seed=0):
    source = random.Random(seed)
    lengths = padded(random_lengths(count, low=9, high=120, seed=seed), multiple=8)
    return [(source.randint(1, max(BATCHES)), length) for length in lengths]


def test_no_request_compiles_after_the_warm_up(backend):
    answer = server(backend)
    with compile_guard(steady=True):
        for batch, length in requests():
            assert answer(batch, length).shape == (batch, VOCAB)


def test_request_of_a_kind_that_was_not_warmed_up_is_named(backend):
    answer = server(backend)
    with pytest.raises(CompileCheckFailed, match="after the warm-up, 0 allowed") as failure:
        with compile_guard(steady=True):
            answer(4, 40)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                answer(4, 40)
    assert {finding.kind for finding in failure.value.findings} == {"recompile"}


def test_calls_after_the_warm_up_equal_eager_and_reuse_its_graphs(backend):
    calls = sizes(lambda batch, length: {"input_ids": tokens(batch, length)}, batch=[2, 4, 8], length=[16, 24, 40, 64])
    report = check_compile(make_llama().eval(), calls=calls, warmup=6, max_recompiles=2, backend=backend)
    assert [row.outcome for row in report.calls[6:]] == ["reused"] * 6
