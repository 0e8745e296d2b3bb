"""Practice 3 in docs/coverage.md, in plain torch: compiled `fully_shard` and tensor parallelism are compared with one
unsharded process.

Outputs, gradients and the parameters after two steps are gathered and compared with one process in eager on the whole
batch. A tensor-parallel model compiles to one graph that contains its collectives, which Inductor can reorder. The
hooks of `fully_shard` run in eager between the graphs, so each layer is compiled separately.

Published recommendation: compile after sharding, and compile each repeated layer separately.
"""

import pytest

from .._ranks import BREAKS_AT_SHARDS, expect_sharding_to_fail_on_cpu
from .on_ranks import sharded, tensor_parallel

ORDERS = [("compile(fully_shard)", BREAKS_AT_SHARDS), ("fully_shard(compile each layer)", 0)]


@pytest.mark.parametrize(("order", "breaks"), ORDERS)
def test_fully_shard(request, ranks, order, breaks):
    expect_sharding_to_fail_on_cpu(request, ranks)
    # The first layer's input does not require a gradient, but the inputs of the other layers do, which causes one
    # recompile.
    for seen in ranks.run(sharded, order, max_graph_breaks=breaks, max_recompiles=1):
        assert (seen["graphs"], seen["breaks"]) == (2, breaks)


def test_tensor_parallel_captures_its_collectives(ranks):
    for seen in ranks.run(tensor_parallel):
        assert seen["graphs"] == 1
        assert ("all_reduce" in seen["forward"]) == (ranks.world_size > 1)  # one rank has nothing to reduce


def test_tensor_parallel_in_inductor(ranks):
    ranks.run(tensor_parallel, backend="inductor")
