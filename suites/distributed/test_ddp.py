"""Row 7: DDP and torch.compile in both orders, with each `optimize_ddp` mode.

Two ranks on half a batch each give the gradients, and the parameters after two steps, of one process in eager on the
whole batch. The bucket-splitting optimizer hands the backend one graph for each bucket, so that a bucket's all-reduce
overlaps with the backward of the next, and does so in both orders; without it, there is one. `compile(DDP(m))` breaks
inside DDP's own forward, before the model's graph; `DDP(compile(m))` does not. With compiled autograd, the Python
reducer's all-reduces stand in the backward graph.

Published: captioning on two GPUs, `compile(DDP(m))` 1 graph and 3 breaks counted, `DDP(compile(m))` no break.
"""

import pytest
from packaging.version import Version

from pytest_torch_compile import RankGroup

from .._ranks import BREAKS_INSIDE_DDP, torch_version
from .on_ranks import trained, trained_by_python_reducer

BUCKETS = 3
REDUCERS = [
    pytest.param(
        "python_reducer",
        marks=pytest.mark.xfail(
            torch_version < Version("2.8"),
            reason="on torch 2.6 no all-reduce reaches the backward graph, nor any gradient",
        ),
    ),
    pytest.param(
        "python_reducer_without_compiled_forward",
        marks=[
            pytest.mark.compile_known_failure(
                "DDP takes no notice of this mode and keeps its C++ reducer, which compiled autograd refuses",
                kind="exception",
                torch=">=2.11",
            ),
            pytest.mark.skipif(torch_version < Version("2.11"), reason="this mode is only tested from torch 2.11 on"),
        ],
    ),
]


@pytest.mark.parametrize(("mode", "graphs"), [("ddp_optimizer", BUCKETS), ("no_optimization", 1)])
def test_compiled_around_ddp(ranks, mode, graphs):
    seen = ranks.run(trained, "compile(DDP)", mode, max_graph_breaks=BREAKS_INSIDE_DDP)
    assert seen == [{"graphs": 1, "breaks": BREAKS_INSIDE_DDP, "compiled": graphs}] * ranks.world_size


@pytest.mark.parametrize(("mode", "graphs"), [("ddp_optimizer", BUCKETS), ("no_optimization", 1)])
def test_compiled_inside_ddp(ranks, mode, graphs):
    assert (
        ranks.run(trained, "DDP(compile)", mode) == [{"graphs": 1, "breaks": 0, "compiled": graphs}] * ranks.world_size
    )


@pytest.mark.slow
def test_in_inductor(ranks):
    ranks.run(trained, "DDP(compile)", "ddp_optimizer", backend="inductor")


@pytest.mark.parametrize("mode", REDUCERS)
def test_python_reducer_captures_the_all_reduces(ranks, mode):
    # In processes of its own: after it, `compile(DDP(m))` breaks in more places of DDP's forward than before.
    with RankGroup(ranks.world_size, backend=ranks.backend) as own:
        found = own.run(trained_by_python_reducer, mode)
    for seen in found:
        assert seen["error"] < 1e-5
        assert seen["collectives"] and set(seen["collectives"]) == {"all_reduce"}
