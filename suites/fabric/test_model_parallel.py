"""Practice 3 in docs/coverage.md: Lightning Fabric's `ModelParallelStrategy` with a model that is sharded or split
inside `parallelize_fn`, and then compiled.

Two steps change the gathered parameters in the same way as one unsharded process in eager. Under tensor parallelism,
the whole model is one graph that contains its collectives.

Published recommendation: apply `fully_shard` and tensor parallelism in `parallelize_fn`, followed by `torch.compile`.
"""

import pytest

pytest.importorskip("lightning", reason="the Fabric suite needs lightning")

from .._ranks import BREAKS_AT_SHARDS, expect_sharding_to_fail_on_cpu
from .on_ranks import under_model_parallel


def test_fully_shard(request, ranks):
    expect_sharding_to_fail_on_cpu(request, ranks)
    # The first layer's input does not require a gradient, but the inputs of the other layers do, which causes one
    # recompile.
    budget = {"max_graph_breaks": BREAKS_AT_SHARDS, "max_recompiles": 1}
    for seen in ranks.run(under_model_parallel, "fully_shard", **budget):
        assert seen["error"] < 1e-4
        assert seen["graphs"] == 2


def test_tensor_parallel_captures_its_collectives(ranks):
    for seen in ranks.run(under_model_parallel, "tensor_parallel"):
        assert seen["error"] < 1e-4
        assert (seen["graphs"], seen["breaks"]) == (1, 0)
        assert ("all_reduce" in seen["forward"]) == (ranks.world_size > 1)  # one rank has nothing to reduce
