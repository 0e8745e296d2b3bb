"""From what checks and speed tests observed to the entries of the document. Plain data, made where the test ran."""

from __future__ import annotations

import linecache
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EXCERPT = 2


def check_entry(report: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """A check from its report's ``to_dict()``: ops as numbers, places relative to ``root`` with the lines around."""
    seen = report["observation"]
    kept = ("target", "checked_mode", "backend", "torch", "device", "budget", "numerics", "rerun", "ok")
    return {
        **{name: report[name] for name in kept},
        "calls": [dict(call) for call in report["calls"]],
        "graphs": [{**graph, "ops": len(graph["ops"])} for graph in seen["graphs"]],
        "graph_breaks": [_break(found, root) for found in seen["graph_breaks"]],
        "recompiles": [_placed(found, root) for found in seen["recompiles"]],
        "fallbacks": [_placed(found, root) for found in seen["fallbacks"]],
        "errors": [dict(error) for error in seen["errors"]],
        "cudagraph_skips": list(seen["cudagraph_skips"]),
        "cudagraph_runs": [{**runs, "without": list(runs["without"])} for runs in seen["cudagraph_runs"]],
        "cache": dict(seen["cache"]),
        "compile_seconds": dict(seen["compile_seconds"]),
        "not_observable": list(seen["not_observable"]),
        "findings": [_placed(found, root) for found in report["findings"]],
        "deviations": [dict(deviation) for deviation in report.get("deviations", [])],
        "diagnosis": list(report.get("diagnosis", [])),
        "remarks": list(report.get("remarks", [])),
    }


def speed_entry(result: Mapping[str, Any]) -> dict[str, Any]:
    """A speed test's result without the baseline entry and the raw rounds."""
    sample = {name: value for name, value in (result.get("sample") or {}).items() if name not in ("raw", "state")}
    wall = sample.get("wall")
    return {
        **{name: result[name] for name in ("environment", "outcome", "summary", "stored_runs")},
        "changes": [dict(change) for change in result["changes"]],
        "speedup": wall["eager"] / wall["compiled"] if wall and wall["compiled"] else None,
        "sample": sample,
    }


def _break(found: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """A graph break with the user's calls that led to it; the libraries' calls between them are left out."""
    kept = {name: value for name, value in found.items() if name != "stack"}
    return {**_placed(kept, root), "callers": [_place(caller, root) for caller in found["callers"]]}


def _placed(found: Mapping[str, Any], root: Path) -> dict[str, Any]:
    return {**found, "location": _place(found.get("location"), root)}


def _place(location: Mapping[str, Any] | None, root: Path) -> dict[str, Any] | None:
    if location is None:
        return None
    file, line = str(location["file"]), int(location["line"])
    lines = _lines(file)
    numbers = range(max(1, line - EXCERPT), min(len(lines), line + EXCERPT) + 1)
    return {
        **location,
        "file": relative(file, root),
        "excerpt": [[number, lines[number - 1].rstrip("\n")[:500]] for number in numbers],
        "library": _place(location.get("library"), root),
    }


def _lines(file: str) -> list[str]:
    try:
        return linecache.getlines(file)
    except ValueError:  # no name that a file could have
        return []


def relative(file: str, root: Path) -> str:
    """A path below ``root`` relative to it, with slashes; any other as it is."""
    try:
        return Path(os.path.realpath(file)).relative_to(os.path.realpath(root)).as_posix()
    except ValueError:
        return file


def environment() -> dict[str, Any]:
    """What this process runs on. torch is described if it was imported, and never imported for it."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": None,
        "cuda": None,
        "device": "cpu",
    }
    torch = sys.modules.get("torch")
    if torch is None:
        return found
    found["torch"], found["cuda"] = str(torch.__version__), torch.version.cuda
    if torch.cuda.is_initialized():
        found["device"] = torch.cuda.get_device_name()
    return found


def environment_key(found: Mapping[str, Any]) -> str:
    """A short name such as ``cpu_torch-2.13_python-3.11`` or ``NVIDIA-H200_torch-2.11_python-3.12``."""
    device = "-".join(str(found["device"]).split())
    parts = [device, *(f"{name}-{_minor(found[name])}" for name in ("torch", "python") if found[name])]
    return "_".join(parts)


def _minor(version: str) -> str:
    return ".".join(str(version).split("+")[0].split(".")[:2])
