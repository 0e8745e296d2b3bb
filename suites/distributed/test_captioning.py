"""Practice 15 in docs/coverage.md: image captioning (ViT encoder, GPT-2 decoder) under DDP, compiled in both orders
without fullgraph.

Two ranks that each process half a batch change the parameters in the same way as one process in eager on the whole
batch.

Published: 4.59 steps/s on 8 A100, about twice the baseline. Measured on two H200 with torch 2.11: 8.87 in eager, 10.68
with `compile(DDP)` and 3 counted breaks, 10.67 with `DDP(compile)` and no breaks, and 11.03 with `compile(DDP)` without
the bucket-splitting optimizer. `benchmarks/coverage/parallel.py` measures these speeds.
"""

import pytest

pytest.importorskip("transformers", reason="the captioner requires transformers")

from .._ranks import BREAKS_INSIDE_DDP
from .captioning_on_ranks import trained

LEGS = [("compile(DDP)", "ddp_optimizer"), ("compile(DDP)", "no_optimization"), ("DDP(compile)", "ddp_optimizer")]


@pytest.mark.parametrize(("order", "mode"), LEGS)
def test_two_steps(ranks, order, mode):
    breaks = BREAKS_INSIDE_DDP if order == "compile(DDP)" else 0
    for seen in ranks.run(trained, order, mode, max_graph_breaks=breaks):
        assert seen["error"] < 1e-4
        assert (seen["graphs"], seen["breaks"]) == (1, breaks)
