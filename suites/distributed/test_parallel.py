"""DDP, `fully_shard`, tensor parallelism, a pipeline stage and expert parallelism are correct in both orders, and
compile the same code on all ranks.

The results equal those of one process in eager on the whole batch. If a rank takes a different branch, has an
additional collective or gets a batch of a different size, a `rank-divergence` finding identifies this rank.
"""

import pytest
from packaging.version import Version

from pytest_torch_compile import CompileCheckFailed

from .._ranks import expect_sharding_to_fail_on_cpu, torch_version
from .parallel_on_ranks import KINDS, diverging, trained

BUDGET = {"max_graph_breaks": 9, "max_recompiles": 9}
ORDERS = pytest.mark.parametrize("outside", [True, False], ids=["compile(parallel)", "parallel(compile)"])
# The batch has a different size on one rank. If ranks exchanged rows, they would wait for each other.
PLANTED = [(kind, how) for kind in KINDS for how in ("branch", "collective")] + [
    ("ddp", "batch"),
    ("fully_shard", "batch"),
]


@ORDERS
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_those_of_one_process(request, ranks, kind, outside):
    if kind == "fully_shard":
        expect_sharding_to_fail_on_cpu(request, ranks)
    if kind == "experts" and ranks.backend == "gloo" and torch_version < Version("2.8"):
        reason = (
            "all_to_all_single_autograd over gloo: on torch 2.6, compiled code returns different numbers than one "
            "process"
        )
        request.node.add_marker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    for seen in ranks.run(trained, kind, outside, **BUDGET):
        assert seen["graphs"] >= 1


@ORDERS
@pytest.mark.parametrize(("kind", "how"), PLANTED)
def test_a_rank_that_differs_is_named(request, ranks, kind, how, outside):
    if ranks.world_size == 1:
        pytest.skip("a single rank has no other rank to differ from")
    if kind == "fully_shard" and ranks.backend == "gloo" and torch_version < Version("2.8"):
        reason = "fully_shard over gloo: torch 2.6 calls record_event on a CPU stream, which does not have it"
        request.node.add_marker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    with pytest.raises(CompileCheckFailed) as caught:
        ranks.run(diverging, kind, outside, how)
    findings = [finding for finding in caught.value.findings if finding.kind == "rank-divergence"]
    assert [finding.ranks for finding in findings] == [(ranks.world_size - 1,)], caught.value
    says = {"batch": "recompile", "collective": "collectives in", "branch": "graph"}[how]
    assert says in findings[0].message, caught.value
