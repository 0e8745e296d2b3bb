"""The findings of a warm start, in which every graph must come from the compile cache."""

from __future__ import annotations

from .. import advice
from ..findings import Finding
from ..observation import CacheCounts


def cache_misses(seen: CacheCounts) -> list[Finding]:
    """Return the findings for a warm start that compiled something; none if every graph came from the cache."""
    missed = max(seen.fx_misses, seen.aot_misses)
    hits = max(seen.fx_hits, seen.aot_hits)
    if not missed and not seen.fx_bypasses and hits:
        return []
    counts = (
        f"Inductor's graph cache: {_hits_and_misses(seen.fx_hits, seen.fx_misses, seen.fx_bypasses)}\n"
        f"AOTAutograd's cache: {_hits_and_misses(seen.aot_hits, seen.aot_misses, seen.aot_bypasses)}"
    )
    if missed:
        message = (
            f"{missed} graph{'s were' if missed > 1 else ' was'} not in the compile cache (0 allowed in a warm start)"
        )
        return [Finding("cache-miss", message, None, counts, advice.WHAT_DIFFERS)]
    if seen.fx_bypasses:
        message = f"graphs that cannot be cached: {seen.fx_bypasses} (0 allowed in a warm start)"
        return [Finding("cache-miss", message, None, counts, advice.SEE_CACHE_BYPASS)]
    message = "the compile cache was not used, but a warm start requires it"
    return [Finding("cache-miss", message, None, counts, advice.ONLY_INDUCTOR)]


def _hits_and_misses(hits: int, misses: int, bypasses: int) -> str:
    return f"hits {hits}, misses {misses}, not cacheable {bypasses}"
