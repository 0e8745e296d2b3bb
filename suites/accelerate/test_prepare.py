"""Practice 12 in docs/coverage.md: Accelerate's `prepare` with a `TorchDynamoPlugin`, full and regional, under DDP,
FSDP and DeepSpeed.

Two steps on two ranks change the parameters in the same way as one process in eager on the whole batch, whether
`prepare` compiles the whole model or its regions.

Published: regional compilation has "comparable speed, much faster compile".
"""

from importlib.util import find_spec

import pytest

pytest.importorskip("accelerate", reason="the Accelerate suite needs accelerate")

from .._ranks import BREAKS_AT_SHARDS, BREAKS_INSIDE_DDP
from .on_ranks import under_ddp, under_deepspeed, under_fsdp

# The first block's input does not require a gradient, but the inputs of the other blocks do, which causes one recompile
# of the region.
FULL = {"max_graph_breaks": BREAKS_INSIDE_DDP}
REGIONAL = {"max_recompiles": 1}


@pytest.mark.parametrize(("regional", "budget", "graphs"), [(False, FULL, 1), (True, REGIONAL, 3)])
def test_under_ddp(ranks, regional, budget, graphs):
    for seen in ranks.run(under_ddp, regional, **budget):
        assert seen["error"] < 1e-4
        assert seen["graphs"] == graphs


@pytest.mark.slow
def test_regions_under_ddp_in_inductor(ranks):
    for seen in ranks.run(under_ddp, True, "inductor", **REGIONAL):
        assert seen["error"] < 1e-4


@pytest.mark.parametrize("regional", [False, True])
def test_under_fsdp(ranks, regional):
    if ranks.backend != "nccl":
        pytest.skip("Accelerate shards only on accelerators: on a CPU, an FSDP plugin silently uses plain DDP")
    budget = {"max_graph_breaks": BREAKS_AT_SHARDS, "max_recompiles": 1}
    for seen in ranks.run(under_fsdp, regional, **budget):
        assert seen["error"] < 1e-4


@pytest.mark.skipif(find_spec("deepspeed") is None, reason="deepspeed is not installed")
@pytest.mark.parametrize("regional", [False, True])
def test_under_deepspeed(ranks, regional):
    for seen in ranks.run(under_deepspeed, regional, max_graph_breaks=10, max_recompiles=1):
        assert seen["error"] < 1e-4
