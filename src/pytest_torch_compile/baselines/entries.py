"""What an entry of a baseline must hold, so that a damaged one is refused where the file is read. Plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# No seconds and no bytes come near it, and sums and squares of figures under it are finite.
LARGEST = 1e100


def has_runs(entry: Mapping[str, Any], key: str) -> bool:
    """Whether the runs under this key of a speed entry's extra info hold eager, compiled and log ratio throughout."""
    try:
        ours = entry["extra_info"][key]
        named = _all(str, [*ours.get("devices", []), *ours.get("codes", [])])
        kept = _all(bool, [*ours.get("kept_caches", [])])
        return named and kept and all(_is_run(run) for run in ours["runs"])
    except (KeyError, TypeError, AttributeError):
        return False


def has_checks(entry: Mapping[str, Any]) -> bool:
    """Whether a structure entry holds what is exact of its checks, and what its timing counts, if it has one."""
    try:
        counts = {name: values for name, values in entry.get("counts", {}).items() if name != "python"}
        counted = _are_counts(count for values in counts.values() for count in values)
        return counted and all(_is_check(check) for check in entry["checks"])
    except (KeyError, TypeError, AttributeError):
        return False


def _is_run(run: Mapping[str, Any]) -> bool:
    return "wall" in run and all(_are_figures(three) for three in run.values())


def _are_figures(three: Any) -> bool:
    finite = _all((int, float), three) and all(abs(figure) < LARGEST for figure in three)
    return finite and len(three) == 3 and min(three[:2]) > 0


def _is_check(check: Mapping[str, Any]) -> bool:
    names = [check["target"], check["backend"], check["checked_mode"], *check["graph_breaks"]]
    counts = [check["recompiles"], check["cudagraph_skips"], check.get("guards", 0), *check["graphs"]]
    return _all(str, names) and _are_counts(counts)


def _are_counts(counts: Iterable[Any]) -> bool:
    return all(isinstance(count, int) and abs(count) < LARGEST for count in counts)


def _all(kind: Any, values: Iterable[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)
