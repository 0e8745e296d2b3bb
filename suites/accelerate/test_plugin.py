"""Practice 12 in docs/coverage.md: the options that Accelerate's `TorchDynamoPlugin` passes to `torch.compile`, and the
regions that it finds.

Backend, mode, fullgraph and dynamic are passed on. `compile_regions` finds the repeated blocks of a model by class,
compiles one of them and reuses it for the others, so two layers need as many graphs as one layer.

Published: regional compilation has "comparable speed, much faster compile".
"""

import pytest
import torch

pytest.importorskip("accelerate", reason="the Accelerate suite needs accelerate")

from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import TorchDynamoPlugin, compile_regions
from torch._dynamo.eval_frame import OptimizedModule

from pytest_torch_compile import CompileCheckFailed, check_compile, sizes

from .._ranks import Net

# The modules of GPT-2 other than its blocks (two embeddings, a dropout, a norm and the head) are compiled through one
# torch function, so all except the first count as recompiles of this function.
LEAVES = 4


def batch(rows):
    return torch.randn(rows, 16)


def prepared(**options):
    """A function for the ``compile=`` argument of ``check_compile``. It returns the model that ``prepare`` returns."""

    def prepare(module):
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
        plugin = TorchDynamoPlugin(**{"backend": "aot_eager", **options})
        return Accelerator(cpu=True, dynamo_plugin=plugin).prepare(module)

    return prepare


def gpt2(layers):
    transformers = pytest.importorskip("transformers", reason="the regions of GPT-2 need transformers")
    config = transformers.GPT2Config(
        n_layer=layers, n_embd=32, n_head=2, vocab_size=64, n_positions=32, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config).eval()


class Branching(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        x = self.linear(x)
        return x + 1 if x.sum() > 0 else x - 1


def test_training_is_eagers():
    check_compile(Net(16), batch(4), train=True, compile=prepared())


def test_fullgraph_refuses_a_break():
    with pytest.raises(CompileCheckFailed) as caught:
        check_compile(Branching(), batch(4), compile=prepared(fullgraph=True))
    assert {finding.kind for finding in caught.value.findings} <= {"graph-break", "compile-error"}
    report = check_compile(Branching(), batch(4), compile=prepared(fullgraph=False), max_graph_breaks=1)
    assert len(report.graph_breaks) == 1


@pytest.mark.parametrize(("dynamic", "recompiles"), [(True, 0), (None, 1), (False, 2)])
def test_dynamic_decides_the_recompiles(dynamic, recompiles):
    calls = sizes(batch, rows=[2, 4, 6])
    report = check_compile(Net(16), calls=calls, compile=prepared(dynamic=dynamic), max_recompiles=recompiles)
    assert len(report.recompiles) == recompiles


def test_mode_and_backend_are_handed_on():
    plugin = TorchDynamoPlugin(backend="inductor", mode="max-autotune-no-cudagraphs")
    assert plugin.to_kwargs() == {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"}


def test_regions_are_found_by_class():
    regional = compile_regions(gpt2(layers=3), backend="aot_eager")
    blocks = [m for m in regional.modules() if isinstance(m, OptimizedModule)]
    assert sum(type(m._orig_mod).__name__ == "GPT2Block" for m in blocks) == 3


@pytest.mark.parametrize("how", ["full", "regional"])
def test_more_layers_cost_no_more_regions(how):
    def wrap(module):
        return (compile_regions if how == "regional" else torch.compile)(module, backend="aot_eager")

    def ops(layers):
        budget = {"max_recompiles": LEAVES if how == "regional" else 0}
        report = check_compile(gpt2(layers), torch.arange(8)[None], compile=wrap, **budget)
        return sum(len(graph.ops) for graph in report.graphs)

    assert (ops(2) == ops(1)) is (how == "regional")


@pytest.mark.slow
def test_regions_in_inductor():
    check_compile(Net(16), batch(4), compile=lambda m: compile_regions(m, backend="inductor"), max_recompiles=1)
