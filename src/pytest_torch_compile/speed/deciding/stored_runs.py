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


def _ours(entry: Mapping[str, Any] | None) -> Mapping[str, Any]:
    ours: Mapping[str, Any] = (entry or {}).get("extra_info", {}).get(KEY, {})
    return ours


def runs_of(entry: Mapping[str, Any] | None) -> list[Figures]:
    """The stored runs of an entry, oldest first."""
    return [{name: (e, c, ratio) for name, (e, c, ratio) in run.items()} for run in _ours(entry).get("runs", [])]


def devices_of(entry: Mapping[str, Any] | None) -> list[str]:
    """The device of each stored run, where it is known."""
    return list(_ours(entry).get("devices", []))


def codes_of(entry: Mapping[str, Any] | None) -> list[str]:
    """Which compiled code each stored run is of; all the same where nothing is known."""
    codes, runs = _ours(entry).get("codes", []), _ours(entry).get("runs", [])
    return list(codes) if len(codes) == len(runs) else [""] * len(runs)


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
    entry = {name: benchmark.get(name) for name in ("group", "name", "param", "options")}
    stats = {name: value for name, value in (benchmark.get("stats") or {}).items() if name != "data"}
    entry |= {"stats": stats, "params": None, "fullname": test}
    entry["extra_info"] = {
        KEY: {
            "schema_version": SCHEMA_VERSION,
            "what": sample.what,
            "mode": sample.mode,
            "kernels": list(sample.kernels) if sample.kernels else None,
            "runs": [rounded(one.figures()) for one in samples],
            "devices": [one.environment.get("uuid", "") for one in samples],
            "codes": [one.code for one in samples],
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
    runs = [rounded(run) for run in (*stored, *runs_of(new))][-MAX_RUNS:]
    devices, codes = ((of(old) + of(new))[-MAX_RUNS:] for of in (devices_of, codes_of))
    return {**new, "extra_info": {KEY: {**_ours(new), "runs": runs, "devices": devices, "codes": codes}}}


def rounded(run: Figures) -> dict[str, list[float]]:
    """Five significant digits of the times, six decimals of the log ratio."""
    return {name: [float(f"{e:.5g}"), float(f"{c:.5g}"), round(ratio, 6)] for name, (e, c, ratio) in run.items()}


def alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two entries could be of one test: the same work in the same mode, with the same kernels."""
    one, other = _ours(first), _ours(second)
    return all(one.get(name) == other.get(name) for name in ("what", "mode", "kernels"))
