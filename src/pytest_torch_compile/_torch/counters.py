"""Read torch's counters of CUDA graph skips, cache look-ups and graph breaks.

This module uses a private torch name, checked with torch 2.6, 2.8, 2.11, 2.13 and 2.15:
``torch._dynamo.utils.counters``.
"""

from __future__ import annotations

# The outcomes of a cache look-up, by torch's name, with the names in the fields of ``CacheCounts``.
OUTCOMES = {"hit": "hits", "miss": "misses", "bypass": "bypasses"}


def event_counts() -> dict[str, int]:
    """Return the values of torch's counters, keyed by the name of the ``CacheCounts`` field that counts the same
    events, or by ``graph_break``.
    """
    from torch._dynamo.utils import counters

    breaks = {"graph_break": sum(counters["graph_break"].values())}
    fx = {f"fx_{ours}": counters["inductor"][f"fxgraph_cache_{name}"] for name, ours in OUTCOMES.items()}
    aot = {f"aot_{ours}": counters["aot_autograd"][f"autograd_cache_{name}"] for name, ours in OUTCOMES.items()}
    return {**breaks, **fx, **aot}


def cudagraph_skips() -> int:
    """Return how many CUDA graphs torch has skipped."""
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])
