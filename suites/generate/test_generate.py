"""generate() with a compiled forward and a static cache produces the same tokens as eager, and needs three graphs for
all prompt lengths.

Covers practice 11 in docs/coverage.md: prefill and decoding are one graph each, the first new prompt length makes the
prefill dynamic, and no later length compiles anything. No figures were published.
"""

import copy

import pytest
import torch

pytest.importorskip("transformers", reason="the generate suite needs transformers")

import transformers as tf

from pytest_torch_compile import compile_guard

from ..transformers.inputs import VOCAB
from ..transformers.models import make_llama, small_gpt2

PROMPTS = (4, 7, 10)
LENGTH = 13
OLD_TORCH = "torch 2.6 cannot trace how transformers reads the signature of forward (see docs/compatibility.md)"


def make_gpt2():
    return tf.GPT2LMHeadModel(small_gpt2())


def make_cached_llama():
    return make_llama(use_cache=True, num_hidden_layers=1)


MODELS = pytest.mark.parametrize("make", [make_cached_llama, make_gpt2], ids=["llama", "gpt2"])


def compiled(model, **options):
    """A copy of the model whose forward is compiled as described in the documentation of transformers."""
    copied = copy.deepcopy(model)
    copied.forward = torch.compile(copied.forward, **options)
    return copied


def tokens(model, length, cache="static", *, unasked=False):
    """The greedy tokens. ``unasked`` allows transformers to compile the decoding step by itself, which is its default
    on CUDA."""
    prompt = torch.randint(3, VOCAB, (2, length), generator=torch.Generator().manual_seed(length))
    options = {"max_length": LENGTH, "min_length": LENGTH, "do_sample": False, "disable_compile": not unasked}
    return model.generate(prompt.to(model.device), **options, cache_implementation=cache)


@MODELS
@pytest.mark.xfail(torch.__version__ < "2.7", reason=OLD_TORCH, raises=torch._dynamo.exc.Unsupported)
@pytest.mark.torch_compile
@pytest.mark.quick
def test_all_prompt_lengths_take_three_graphs(make):
    eager = make().eval()
    model = compiled(eager, backend="eager", fullgraph=True)
    with compile_guard(max_recompiles=2) as seen:
        for length in PROMPTS:
            assert torch.equal(tokens(model, length), tokens(eager, length))
    assert len(seen.graphs) == 3


@MODELS
@pytest.mark.compile_known_failure(OLD_TORCH, kind=["graph-break", "recompile", "eager-fallback"], torch="<2.7")
@pytest.mark.torch_compile
def test_growing_cache_takes_three_graphs_too(make):
    eager = make().eval()
    model = compiled(eager, backend="eager")
    with compile_guard(max_recompiles=3):
        for length in PROMPTS:
            assert torch.equal(tokens(model, length, "dynamic"), tokens(eager, length, "dynamic"))


@pytest.mark.compile_known_failure(OLD_TORCH, kind=["graph-break", "recompile", "eager-fallback"], torch="<2.7")
@pytest.mark.torch_compile
def test_sampling_draws_eager_tokens():
    eager = make_cached_llama().eval()
    model = compiled(eager, backend="eager")
    prompt = torch.randint(3, VOCAB, (2, 6))
    drawn = []
    with compile_guard(max_recompiles=2):
        for target in (eager, model):
            torch.manual_seed(7)
            options = {"max_length": 10, "min_length": 10, "do_sample": True, "cache_implementation": "static"}
            drawn.append(target.generate(prompt, **options))
    assert torch.equal(*drawn)


@pytest.mark.gpu
@pytest.mark.torch_compile
def test_generate_compiles_itself_on_a_gpu():
    """With a static cache on CUDA, transformers compiles the decoding step by itself."""
    model = make_cached_llama().eval().cuda()
    expected = tokens(model, 6, "dynamic")
    with compile_guard(max_graph_breaks=0, max_recompiles=1):
        assert torch.equal(tokens(model, 6, unasked=True), expected)


@pytest.mark.gpu
@MODELS
@pytest.mark.torch_compile
def test_tokens_of_inductor_are_those_of_eager(make):
    eager = make().eval().cuda()
    model = compiled(eager, fullgraph=True)
    with compile_guard(max_recompiles=2):
        for length in PROMPTS[:3]:
            assert torch.equal(tokens(model, length), tokens(eager, length))
