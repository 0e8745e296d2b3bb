"""The runs a baseline entry stores, and how a new run gets into them. Plain data: neither torch nor pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..sample import SCHEMA_VERSION, Figures, SpeedSample, source_of
from .comparison import MIN_RUNS_OF_A_CODE, same_code

KEY = "torch_compile"
MAX_RUNS = 20
ENOUGH_DEVICES = 3
Entry = dict[str, Any]


def runs_of(entry: Mapping[str, Any] | None) -> list[Figures]:
    """The stored runs of an entry, oldest first."""
    stored = (entry or {}).get("extra_info", {}).get(KEY, {}).get("runs", [])
    return [{name: (pair[0], pair[1], pair[2]) for name, pair in run.items()} for run in stored]


def devices_of(entry: Mapping[str, Any] | None) -> list[str]:
    """The device of each stored run, where it is known."""
    return list((entry or {}).get("extra_info", {}).get(KEY, {}).get("devices", []))


def codes_of(entry: Mapping[str, Any] | None) -> list[str]:
    """Which compiled code each stored run is of; all the same where nothing is known."""
    codes = (entry or {}).get("extra_info", {}).get(KEY, {}).get("codes", [])
    runs = len(runs_of(entry))
    return list(codes) if len(codes) == runs else [""] * runs


def runs_by_source(entry: Mapping[str, Any] | None) -> list[list[Figures]]:
    """The stored runs, those of the same generated code together."""
    groups: dict[str, list[Figures]] = {}
    for run, code in zip(runs_of(entry), codes_of(entry), strict=True):
        groups.setdefault(source_of(code), []).append(run)
    return list(groups.values())


def unknown_device(entry: Mapping[str, Any] | None, device: str) -> str:
    """Why a device cannot be judged by these runs, or ``""``: they know neither it nor how devices differ."""
    known = set(devices_of(entry))
    if not known or device in known or len(known) >= ENOUGH_DEVICES:
        return ""
    others = f"{len(known)} other device{'s' if len(known) > 1 else ''}"
    return f"the baseline was recorded on {others}; record it on this one, or on {ENOUGH_DEVICES} devices"


def new_entry(test: str, benchmark: Mapping[str, Any], samples: Sequence[SpeedSample]) -> Entry:
    """A pytest-benchmark entry with a run for each sample of this test; the rounds themselves are left out."""
    sample = samples[0]
    kept = ("group", "name", "param", "params", "options", "stats")
    entry = {name: benchmark.get(name) for name in kept}
    entry["stats"] = {name: value for name, value in (entry["stats"] or {}).items() if name != "data"}
    entry["params"] = None
    entry["fullname"] = test
    entry["extra_info"] = {
        KEY: {
            "schema_version": SCHEMA_VERSION,
            "what": sample.what,
            "mode": sample.mode,
            "kernels": list(sample.kernels) if sample.kernels else None,
            "runs": [rounded(each.figures()) for each in samples],
            "devices": [each.environment.get("uuid", "") for each in samples],
            "codes": [each.code for each in samples],
        }
    }
    return entry


def merged(old: Entry | None, new: Entry, outcome: str) -> Entry:
    """What to store: a changed test starts over, an unchanged one gathers runs until it has enough."""
    stored = runs_of(old)
    if old is None or outcome in ("regressed", "improved"):
        return new
    same = same_code(codes_of(old), codes_of(new)[0])
    known_code = sum(code in same for code in codes_of(old)) >= MIN_RUNS_OF_A_CODE
    # A quantity that is measured since a later version has to get into full entries too.
    known = all(sum(name in run for run in stored) >= MIN_RUNS_OF_A_CODE for name in runs_of(new)[0])
    if len(stored) >= MAX_RUNS and known_code and known and not unknown_device(old, devices_of(new)[0]):
        return old
    found = new["extra_info"][KEY]
    runs = [rounded(run) for run in (*stored, *runs_of(new))][-MAX_RUNS:]
    devices, codes = ((of(old) + of(new))[-MAX_RUNS:] for of in (devices_of, codes_of))
    return {**new, "extra_info": {KEY: {**found, "runs": runs, "devices": devices, "codes": codes}}}


def rounded(run: Figures) -> dict[str, list[float]]:
    """Five significant digits of the times, six decimals of the log ratio."""
    return {name: [float(f"{e:.5g}"), float(f"{c:.5g}"), round(ratio, 6)] for name, (e, c, ratio) in run.items()}


def alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two entries could be of one test: the same work in the same mode, with the same kernels."""
    one, other = (entry.get("extra_info", {}).get(KEY, {}) for entry in (first, second))
    return all(one.get(name) == other.get(name) for name in ("what", "mode", "kernels"))
