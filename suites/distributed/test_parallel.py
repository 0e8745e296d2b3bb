"""DDP, `fully_shard`, tensor parallel, a pipeline stage and expert parallel: right in both orders, and alike on all ranks.

The results are those of one process in eager on the whole batch. A rank that takes another branch, has one more
collective, or gets a batch of another size, is a `rank-divergence` that names it.
"""

import pytest
from packaging.version import Version

from pytest_torch_compile import CompileCheckFailed

from .._ranks import expect_sharding_to_fail_on_cpu, torch_version
from .parallel_on_ranks import KINDS, diverging, trained

BUDGET = {"max_graph_breaks": 9, "max_recompiles": 9}
ORDERS = pytest.mark.parametrize("outside", [True, False], ids=["compile(parallel)", "parallel(compile)"])
# Of another size on one rank: where ranks exchange rows, they would wait for each other.
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
        reason = "all_to_all_single_autograd over gloo: torch 2.6 gives other numbers than one process, compiled"
        request.node.add_marker(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
    for seen in ranks.run(trained, kind, outside, **BUDGET):
        assert seen["graphs"] >= 1


@ORDERS
@pytest.mark.parametrize(("kind", "how"), PLANTED)
def test_a_rank_that_differs_is_named(ranks, kind, how, outside):
    if ranks.world_size == 1:
        pytest.skip("one rank differs from nobody")
    if kind == "fully_shard" and ranks.backend == "gloo" and torch_version < Version("2.8"):
        pytest.skip("fully_shard over gloo: torch 2.6 finds no stream on CPU")
    with pytest.raises(CompileCheckFailed) as caught:
        ranks.run(diverging, kind, outside, how)
    findings = [finding for finding in caught.value.findings if finding.kind == "rank-divergence"]
    assert [finding.ranks for finding in findings] == [(ranks.world_size - 1,)], caught.value
    says = {"batch": "recompile", "collective": "collectives in", "branch": "graph"}[how]
    assert says in findings[0].message, caught.value
