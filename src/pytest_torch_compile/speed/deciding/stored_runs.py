"""Read the stored runs of a test from a baseline, and add new runs. This module imports neither torch nor pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...baselines import files as baselines
from ...baselines import structure
from ...findings import CompileCheckFailed
from ..sample import SCHEMA_VERSION, Run, SpeedSample, Times
from .constants import ENOUGH_DEVICES, MAX_RUNS

KEY = "torch_compile"
Entry = dict[str, Any]


@dataclass(frozen=True)
class StoredTest:
    """One test's stored runs, oldest first, and all its recorded counts.

    ``problems`` lists the reasons, if any, why the times of a new run cannot be compared with the stored runs. If there
    are no stored runs, ``missing`` is the reason.
    """

    runs: Sequence[Run] = ()
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    problems: Sequence[str] = ()
    missing: str = ""


def stored_test(
    folder: Path, test: str, environment: Mapping[str, Any], *, kept_cache: bool, gates: bool
) -> StoredTest:
    """Return the part of an environment's baselines that is about one test. ``kept_cache`` is whether the new run can
    use a persistent compile cache.

    Raises:
        CompileCheckFailed: If ``gates`` is true and a baseline file cannot be read.
    """
    name = baselines.name_of(environment)
    speed, counted = baselines.load(folder, name), baselines.load(folder, name, "structure")
    if (problem := speed.problem or counted.problem) and gates:
        raise CompileCheckFailed(f"the baseline cannot be used: {problem}", None)
    runs = runs_of(speed.entries.get(test))
    # On a CPU, only counts are stored.
    nothing = speed.missing if speed.problem or speed.nearest else counted.missing
    has_others = bool(speed.entries or counted.entries)
    problems = [unknown_device(runs, environment.get("uuid", "")), other_cache(runs, kept_cache)]
    return StoredTest(
        runs,
        structure.counts_of(counted.entries.get(test), environment["python"]),
        [problem for problem in problems if problem],
        f"the baseline {speed.path.parent} has no entry for this test" if has_others else nothing,
    )


def _ours(entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    ours: Mapping[str, Any] = (entry or {}).get("extra_info", {}).get(KEY, {})
    return ours


def runs_of(entry: Mapping[str, Any] | None) -> list[Run]:
    """Return the stored runs in a baseline entry, oldest first."""
    ours = _ours(entry)
    rows = ours.get("runs", [])
    columns = [ours.get(name) or [] for name in ("codes", "devices", "kept_caches", "compile_processes")]
    # A column of another length cannot be matched to the runs, so its values are unknown.
    columns = [column if len(column) == len(rows) else [""] * len(rows) for column in columns]
    runs = []
    for figures, code, device, kept, processes in zip(rows, *columns, strict=True):
        wall, host, on_device = (Times(*figures[n]) if n in figures else None for n in ("wall", "host", "device"))
        cold, warm = (figures[name][1] if name in figures else None for name in ("start", "warm-start"))
        assert wall is not None  # an entry without this key is rejected when the file is read
        runs.append(Run(wall, host, on_device, cold, warm, code, device, bool(kept), processes or 0))
    return runs


def _figures(run: Run) -> dict[str, list[float]]:
    """Return a run's times, rounded to five significant digits, and the logs of the ratios of compiled to eager times,
    rounded to six decimals.
    """
    three = {"wall": run.wall, "host": run.host, "device": run.device}
    figures = {
        name: [float(f"{time.eager:.5g}"), float(f"{time.compiled:.5g}"), round(time.log_ratio, 6)]
        for name, time in three.items()
        if time
    }
    starts = {"start": run.start, "warm-start": run.warm_start}
    return figures | {name: [1.0, float(f"{value:.5g}"), 0.0] for name, value in starts.items() if value}


def unknown_device(runs: Sequence[Run], device: str) -> str:
    """Return the reason why the stored ``runs`` cannot be used to judge a run on ``device``, or ``""`` if they can be
    used. Stored runs can be used if some of them were recorded on ``device``, if they were recorded on at least three
    other devices, or if their devices are unknown.
    """
    known = {run.device_id for run in runs} - {""}
    if not known or device in known or len(known) >= ENOUGH_DEVICES:
        return ""
    others = f"{len(known)} other device{'s' if len(known) > 1 else ''}"
    return (
        f"the baseline was recorded on {others}; record it again on this device, or on at least {ENOUGH_DEVICES} "
        "devices"
    )


def other_cache(runs: Sequence[Run], kept_cache: bool) -> str:
    """Return the reason why a new run cannot be compared with the stored ``runs``, or ``""`` if it can be compared. A
    new run without a persistent compile cache cannot be compared with stored runs that all used a persistent compile
    cache.
    """
    if not runs or kept_cache or not all(run.kept_cache for run in runs):
        return ""
    return (
        "the baseline was recorded with a persistent compile cache; set a persistent cache (--compile-cache), or "
        "record the baseline again"
    )


def new_entry(test: str, benchmark: Mapping[str, Any], samples: Sequence[SpeedSample]) -> Entry:
    """Return a pytest-benchmark entry that contains one run for each sample, but no times of individual rounds."""
    stats = {name: value for name, value in (benchmark.get("stats") or {}).items() if name != "data"}
    entry = {name: benchmark.get(name) for name in ("group", "name", "param", "options")}
    ours = {"schema_version": SCHEMA_VERSION, "what": samples[0].what, "mode": samples[0].mode}
    ours |= _columns([sample.run() for sample in samples])
    return {**entry, "stats": stats, "params": None, "fullname": test, "extra_info": {KEY: ours}}


def _columns(runs: Sequence[Run]) -> Entry:
    processes = [run.compile_processes for run in runs]
    return {
        "runs": [_figures(run) for run in runs],
        "codes": [run.code for run in runs],
        "devices": [run.device_id for run in runs],
        "kept_caches": [run.kept_cache for run in runs],
        **({"compile_processes": processes} if any(processes) else {}),
    }


def merged(old: Entry | None, new: Entry, changed: bool) -> Entry:
    """Return the entry to store, with the old and the new runs. If the test or its kind of compile cache (persistent or
    not) has changed, the entry contains only the new runs.

    At most ``MAX_RUNS`` runs are stored. If ``old`` already contains ``MAX_RUNS`` runs that are valid for the new run's
    device (see ``unknown_device``), ``old`` is returned unchanged.
    """
    stored, added = runs_of(old), runs_of(new)
    if old is None or changed or any(run.kept_cache != added[0].kept_cache for run in stored):
        return new
    if len(stored) >= MAX_RUNS and not unknown_device(stored, added[0].device_id):
        return old
    return {**new, "extra_info": {KEY: {**_ours(new), **_columns([*stored, *added][-MAX_RUNS:])}}}


def alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two entries measure the same work in the same mode, and so could belong to the same test."""
    one, other = _ours(first), _ours(second)
    return all(one.get(name) == other.get(name) for name in ("what", "mode"))
