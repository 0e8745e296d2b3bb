"""Turn the results of checks and speed tests into entries for the report, in the process that ran the test."""

from __future__ import annotations

import linecache
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..observation import file_line

EXCERPT = 2  # source lines shown before and after a location
_OF_REPORT = (
    *("target", "checked_mode", "backend", "torch", "device", "budget", "numerics", "rerun", "ok"),
    *("calls", "deviations", "diagnosis", "fault", "reproduction", "remarks"),
)
_OF_OBSERVATION = ("errors", "cudagraph_skips", "cudagraph_runs", "cache", "compile_seconds", "not_observable")


def check_entry(report: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Create a check's entry from its report's ``to_dict()``. For each graph, the entry contains the number of ops
    instead of a list of ops. Paths are relative, and each location includes its source lines.
    """
    seen = report["observation"]
    breaks = []
    for found in seen["graph_breaks"]:
        # Only the calls in user code that led to a break are of interest, and not the library calls in between.
        kept = {name: value for name, value in found.items() if name != "stack"}
        breaks.append({**_placed(kept, root), "callers": [_place(caller, root) for caller in found["callers"]]})
    recompiles = []
    for found in seen["recompiles"]:
        guards = [{**guard, "text": _below(guard["text"], root)} for guard in found["guards"]]
        recompiles.append({**_placed(found, root), "guards": guards})
    return {
        **{name: report[name] for name in _OF_REPORT},
        "calls": [{**call, "guard": _below(call["guard"], root)} for call in report["calls"]],
        **{name: seen[name] for name in _OF_OBSERVATION},
        "graphs": [{**graph, "ops": len(graph["ops"])} for graph in seen["graphs"]],
        "graph_breaks": breaks,
        "recompiles": recompiles,
        "fallbacks": [_placed(found, root) for found in seen["fallbacks"]],
        "findings": [_placed(found, root) for found in report["findings"]],
        **({"plan": _plan(report["plan"], root)} if "plan" in report else {}),
    }


def _plan(figures: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the figures of a plan (``check_plan``), with each kernel launch's location as a string, ``file:line``."""
    launches = []
    for launch in figures["launches"]:
        place = launch["location"]
        where = file_line(relative(place["file"], root), place["line"]) if place else ""
        launches.append({**launch, "location": where})
    return {**figures, "launches": launches}


def speed_entry(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report's entry for a speed test: its result without the baseline entry and the raw measurements."""
    sample = {name: value for name, value in (result.get("sample") or {}).items() if name not in ("raw", "state")}
    wall = sample.get("wall")
    return {
        **{name: result[name] for name in ("environment", "outcome", "summary", "stored_runs")},
        "changes": [dict(change) for change in result["changes"]],
        "exact": [dict(difference) for difference in result.get("exact", [])],
        "speedup": wall["eager"] / wall["compiled"] if wall and wall["compiled"] else None,
        "sample": sample,
    }


def _below(text: str, root: Path) -> str:
    """Make the paths in a guard's text relative to ``root``. torch appends a source location to each guard."""
    for folder in {os.path.realpath(root), str(root)}:
        text = text.replace(f"{folder}{os.sep}", "")
    return text


def _placed(found: Mapping[str, Any], root: Path) -> dict[str, Any]:
    return {**found, "location": _place(found.get("location"), root)}


def _place(location: Mapping[str, Any] | None, root: Path) -> dict[str, Any] | None:
    if location is None:
        return None
    file, line = str(location["file"]), int(location["line"])
    try:
        lines = linecache.getlines(file)
    except ValueError:  # not a possible file name
        lines = []
    numbers = range(max(1, line - EXCERPT), min(len(lines), line + EXCERPT) + 1)
    return {
        **location,
        "file": relative(file, root),
        "excerpt": [[number, lines[number - 1].rstrip("\n")[:500]] for number in numbers],
        "library": _place(location.get("library"), root),
    }


def relative(file: str, root: Path) -> str:
    """Return a path inside ``root`` as a relative path with slashes, and any other path unchanged."""
    try:
        return Path(os.path.realpath(file)).relative_to(os.path.realpath(root)).as_posix()
    except ValueError:
        return file


def environment() -> dict[str, Any]:
    """Describe the environment of this process; torch is included only if it is already imported."""
    torch = sys.modules.get("torch")
    # A device that is not initialized is not queried.
    used = (module for name in ("cuda", "xpu") if (module := getattr(torch, name, None)) and module.is_initialized())
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": str(torch.__version__) if torch else None,
        "cuda": torch.version.cuda if torch else None,
        "device": next((str(module.get_device_name()) for module in used), "cpu"),
    }


def environment_key(where: Mapping[str, Any]) -> str:
    """Return a short name such as ``cpu_torch-2.13_python-3.11`` or ``NVIDIA-H200_torch-2.11_python-3.12``."""
    parts = ["-".join(str(where["device"]).split())]
    for name in ("torch", "python"):
        if version := where[name]:
            parts.append(f"{name}-{'.'.join(str(version).split('+')[0].split('.')[:2])}")
    return "_".join(parts)
