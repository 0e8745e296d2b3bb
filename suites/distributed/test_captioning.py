"""Row 15: image captioning (ViT encoder, GPT-2 decoder) under DDP, compiled in both orders, fullgraph off.

Two ranks on half a batch each change the parameters as one process in eager on the whole batch does.

Published: 4.59 steps/s on 8 A100, about twice the baseline; on two H200, torch 2.11: eager 8.87, `compile(DDP)` 10.68
with 3 breaks counted, `DDP(compile)` 10.67 with none, `compile(DDP)` without the bucket-splitting optimizer 11.03.
The speed on a machine is measured by `benchmarks/coverage/parallel.py`.
"""

import pytest

pytest.importorskip("transformers", reason="the captioner is of transformers")

from .._ranks import BREAKS_INSIDE_DDP
from .captioning_on_ranks import trained

LEGS = [("compile(DDP)", "ddp_optimizer"), ("compile(DDP)", "no_optimization"), ("DDP(compile)", "ddp_optimizer")]


@pytest.mark.parametrize(("order", "mode"), LEGS)
def test_two_steps(ranks, order, mode):
    breaks = BREAKS_INSIDE_DDP if order == "compile(DDP)" else 0
    for seen in ranks.run(trained, order, mode, max_graph_breaks=breaks):
        assert seen["error"] < 1e-4
        assert (seen["graphs"], seen["breaks"]) == (1, breaks)
