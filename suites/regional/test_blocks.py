"""Practice 19 in docs/coverage.md: regional compilation of repeated blocks compiles once for each class of block,
regardless of the number of blocks.

Published (A100, torch 2.7, the captioner): 7.78 steps/s for the whole model and 7.61 for its blocks, and cold starts of
196 s and 80 s (2.45x).

If all blocks are called through one function, as in transformers since about 5.20, they share the cache of this
function: the second class then counts as a recompile of the first, and more than eight classes exceed the recompile
limit.

Blocks are found by class rather than by path, because `ViTModel` no longer has the attribute `encoder` that contained
its blocks.
"""

from functools import partial

import pytest
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.vit.modeling_vit import ViTLayer

from pytest_torch_compile import call

from ..captioning.models import captions, loss_of, tiny
from .blocks import compile_blocks, repeated_blocks

LAYERS = 3


@pytest.fixture
def regional(backend):
    """A function that compiles the repeated blocks of a model."""
    return partial(compile_blocks, backend=backend, fullgraph=True)


def test_blocks_are_found_by_class():
    found = repeated_blocks(tiny(layers=LAYERS))

    assert {kind: len(blocks) for kind, blocks in found.items()} == {ViTLayer: LAYERS, GPT2Block: LAYERS}


def test_one_compile_for_each_class_of_block(compile_check, regional):
    batch = call(**captions([8, 6]))

    report = compile_check(tiny(layers=LAYERS), calls=[batch] * 2, train=loss_of, compile=regional, max_recompiles=1)

    assert [graph.call for graph in report.graphs] == [1, 1]


def test_graphs_do_not_grow_with_depth(compile_check, regional):
    batch = call(**captions([8, 6]))

    blocks = compile_check(tiny(LAYERS), calls=[batch], train=loss_of, compile=regional, max_recompiles=1)
    whole = compile_check(tiny(LAYERS), calls=[batch], train=loss_of)

    assert len(blocks.graphs) == 2
    assert blocks.observation.ops * LAYERS <= whole.observation.ops


def test_lengths_cost_one_recompile_of_one_class(compile_check, regional):
    calls = [call(**captions([n - 2, n])) for n in (16, 24, 32)]

    report = compile_check(tiny(layers=2), calls=calls, train=loss_of, compile=regional, max_recompiles=2)

    assert [graph.call for graph in report.graphs] == [1, 1, 2]
