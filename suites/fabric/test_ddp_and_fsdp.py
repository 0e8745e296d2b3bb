"""Practice 2 in docs/coverage.md: Lightning Fabric with a model that is compiled before `setup()`, under DDP and FSDP.

With `_reapply_compile` (the default), Fabric removes the compilation, wraps the model and compiles the wrapper:
`compile(DDP(m))`, which has a graph break inside DDP's own forward. Otherwise, the wrapper is outside:
`DDP(compile(m))`, without a break. In both cases there is a graph for each bucket, and two steps change the parameters
in the same way as one process in eager on the whole batch.

Published recommendation: compile before `setup()`, and leave `_reapply_compile` on unless compiling the wrapper causes
problems.
"""

import pytest

pytest.importorskip("lightning", reason="the Fabric suite needs lightning")

from .._ranks import BREAKS_INSIDE_DDP
from .on_ranks import under_ddp, under_fsdp

BUCKETS = 3
BREAKS_INSIDE_FSDP = 10


@pytest.mark.parametrize(("reapply", "breaks"), [(True, BREAKS_INSIDE_DDP), (False, 0)])
def test_under_ddp(ranks, reapply, breaks):
    for seen in ranks.run(under_ddp, reapply, max_graph_breaks=breaks):
        assert seen["error"] < 1e-4
        assert (seen["graphs"], seen["breaks"], seen["compiled"]) == (1, breaks, BUCKETS)


@pytest.mark.slow
def test_under_ddp_in_inductor(ranks):
    for seen in ranks.run(under_ddp, False, backend="inductor"):
        assert seen["error"] < 1e-4


@pytest.mark.parametrize("reapply", [True, False])
def test_under_fsdp(ranks, reapply):
    if ranks.backend != "nccl":
        pytest.skip("Fabric supports its FSDP strategy only on CUDA devices")
    for seen in ranks.run(under_fsdp, reapply, max_graph_breaks=BREAKS_INSIDE_FSDP if reapply else 0):
        assert seen["error"] < 1e-4
