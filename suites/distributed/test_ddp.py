"""Practice 7 in docs/coverage.md: DDP and torch.compile in either order, with each `optimize_ddp` mode.

Two ranks that each process half a batch compute the same gradients, and the same parameters after two steps, as one
process in eager on the whole batch. In both orders, the bucket-splitting optimizer passes one graph for each bucket to
the backend, so that the all-reduce of a bucket overlaps with the backward of the next bucket. Without this optimizer,
there is only one graph. `compile(DDP(m))` has a graph break inside DDP's own forward, before the model's graph, but
`DDP(compile(m))` does not. With compiled autograd, the all-reduces of the Python reducer are in the backward graph.

Published for captioning on two GPUs: 1 graph and 3 counted breaks for `compile(DDP(m))`, and no break for
`DDP(compile(m))`.
"""

import pytest

from pytest_torch_compile import RankGroup

from .._ranks import BREAKS_INSIDE_DDP
from .on_ranks import trained, trained_by_python_reducer

BUCKETS = 3
REDUCERS = [
    "python_reducer",
    pytest.param(
        "python_reducer_without_compiled_forward",
        marks=pytest.mark.compile_known_failure(
            "DDP ignores this mode and keeps its C++ reducer, which compiled autograd rejects",
            kind="exception",
            torch=">=2.8",
        ),
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
    # This runs in separate processes, because after it `compile(DDP(m))` has breaks in more places of DDP's forward.
    with RankGroup(ranks.world_size, backend=ranks.backend) as own:
        found = own.run(trained_by_python_reducer, mode)
    for seen in found:
        assert seen["error"] < 1e-5
        assert seen["collectives"] and set(seen["collectives"]) == {"all_reduce"}
