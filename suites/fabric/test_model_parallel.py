"""Row 3: Lightning Fabric's `ModelParallelStrategy`, sharded or split inside `parallelize_fn`, then compiled.

Two steps change the gathered parameters as one unsharded process in eager does. Under tensor parallel the whole model
is one graph, and its collectives stand in it.

Published: `fully_shard` and tensor parallel go into `parallelize_fn`, and `torch.compile` after them.
"""

import pytest

pytest.importorskip("lightning", reason="the Fabric suite needs lightning")

from .._ranks import BREAKS_AT_SHARDS, expect_sharding_to_fail_on_cpu
from .on_ranks import under_model_parallel


def test_fully_shard(request, ranks):
    expect_sharding_to_fail_on_cpu(request, ranks)
    # The first layer's input needs no gradient, that of the others does: one recompile.
    budget = {"max_graph_breaks": BREAKS_AT_SHARDS, "max_recompiles": 1}
    for seen in ranks.run(under_model_parallel, "fully_shard", **budget):
        assert seen["error"] < 1e-4
        assert seen["graphs"] == 2


def test_tensor_parallel_captures_its_collectives(ranks):
    for seen in ranks.run(under_model_parallel, "tensor_parallel"):
        assert seen["error"] < 1e-4
        assert (seen["graphs"], seen["breaks"]) == (1, 0)
        assert ("all_reduce" in seen["forward"]) == (ranks.world_size > 1)  # one rank has nothing to reduce
