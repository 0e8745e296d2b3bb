"""The mutation test and the false-alarm test of the checker, in parallel over the cores there are.

``python -m tests.mutants.run --mutants 1200 --seeds 23 --out mutants.json``
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

RIVALS = ("checker", "assert_close", "same")


@dataclass
class Job:
    """One model in one dtype, in inference or training, with the mutants and the honest checks to run on it."""

    model: str
    dtype: str
    train: bool
    mutants: int
    seeds: int
    device: str = "cpu"
    backend: str = "captured"
    first: int = 0
    budget: float = 1e9


@dataclass
class Row:
    """One check: a mutant, or an honest run (no mutation)."""

    model: str
    dtype: str
    train: bool
    seed: int
    mutation: str = ""
    kind: str = ""
    verdict: str = ""
    passed_by: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    ratio: float = 0.0
    signal: float = 0.0
    seconds: float = 0.0
    comparing: float = 0.0
    measured: list[dict[str, Any]] = field(default_factory=list)


def work(job: Job) -> list[Row]:
    """Everything of one job; what cannot run at all is a row of its own."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        from tests.mutants.bench import Bench

        return list(_rows(job, Bench(job)))
    except Exception:
        return [Row(job.model, job.dtype, job.train, 0, verdict="broken", findings=[traceback.format_exc()[-1500:]])]


def _rows(job: Job, bench: Any) -> Iterator[Row]:
    started = time.monotonic()
    for seed in range(job.first, job.first + job.seeds):
        if time.monotonic() - started < job.budget:
            yield bench.honest(seed + 1)
    for seed in range(job.first, job.first + job.mutants):
        if time.monotonic() - started < job.budget:
            yield bench.mutant(seed + 1)


def jobs(options: argparse.Namespace) -> list[Job]:
    """The work, spread over models, dtypes and modes; fp16 is for honest checks only."""
    from tests.mutants.models import MODELS

    names = list(MODELS)[: options.models] if not options.only else options.only.split(",")
    dtypes = options.dtypes.split(",")
    places = list(itertools.product(names, dtypes, (False, True)))
    mutated = [place for place in places if place[1] != "float16"]
    share, rest = divmod(options.mutants, max(1, len(mutated)))
    counts = {place: share + (index < rest) for index, place in enumerate(mutated)}
    return [
        Job(*place, counts.get(place, 0), options.seeds, options.device, options.backend, budget=options.budget)
        for place in places
    ]


def split(work_list: list[Job], size: int) -> list[Job]:
    """The same jobs in pieces of at most ``size`` checks, for even loads where nothing is captured once."""
    pieces = []
    for job in work_list:
        for first in range(0, max(job.mutants, job.seeds), size):
            mutants, seeds = (max(0, min(size, total - first)) for total in (job.mutants, job.seeds))
            pieces.append(Job(**{**asdict(job), "mutants": mutants, "seeds": seeds, "first": first}))
    return pieces


def summary(rows: list[Row]) -> dict[str, Any]:
    """The counts that are printed and written."""
    mutants, honest = (
        [row for row in rows if row.kind],
        [row for row in rows if not row.kind and row.verdict != "broken"],
    )
    usable = [row for row in mutants if row.verdict in ("killed", "survived", "below rounding")]
    return {
        "mutants": len(mutants),
        "verdicts": dict(Counter(row.verdict for row in mutants)),
        "by kind": {
            kind: dict(Counter(row.verdict for row in mutants if row.kind == kind))
            for kind in sorted({row.kind for row in mutants})
        },
        "by dtype": {
            dtype: dict(Counter(row.verdict for row in mutants if row.dtype == dtype))
            for dtype in sorted({row.dtype for row in mutants})
        },
        "kill rate": _share(sum(row.verdict == "killed" for row in usable), len(usable)),
        "kills": {rival: _share(sum(rival not in row.passed_by for row in usable), len(usable)) for rival in RIVALS},
        "honest checks": len(honest),
        "false alarms": {rival: sum(rival not in row.passed_by for row in honest) for rival in RIVALS},
        "broken": [row.findings[0] for row in rows if row.verdict == "broken"],
        "seconds in checks": sum(row.seconds for row in rows),
        "seconds comparing": sum(row.comparing for row in rows),
    }


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.2f} %)" if whole else "0 of 0"


def report(rows: list[Row]) -> Iterator[str]:
    """The summary, every survivor and every false alarm, as lines."""
    for name, value in summary(rows).items():
        if isinstance(value, dict):
            yield f"{name}:"
            yield from (f"  {key:24} {count}" for key, count in value.items())
        else:
            yield f"{name}: {value}"
    for row in rows:
        mode = "training" if row.train else "inference"
        if row.verdict in ("survived", "below rounding"):
            yield (
                f"{row.verdict}: {row.model} {row.dtype} {mode} seed {row.seed}: {row.mutation}, "
                f"{row.ratio:.3g} of the limit, change {row.signal:.3g} of eager's own error"
            )
        if not row.kind and row.verdict == "false alarm":
            yield f"false alarm: {row.model} {row.dtype} {mode} seed {row.seed}: {row.findings}"


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=23)
    parser.add_argument("--models", type=int, default=99)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtypes", default="float32,bfloat16,float16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="captured", choices=["captured", "inductor"])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which a job starts no further check")
    parser.add_argument("--measures", type=Path, help="write every leaf's measures too, for choosing constants")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    todo = jobs(options)
    if options.backend == "inductor":
        todo = split(todo, 2)
    # In mixed order, a run that is cut short has seen something of every model.
    random.Random(0).shuffle(todo)
    started = time.monotonic()
    rows: list[Row] = []
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=24) as pool:
        for done in pool.imap_unordered(work, todo):
            rows += done
            if options.out:
                write(rows, options.out, measures=False)
    if options.measures:
        write(rows, options.measures, measures=True)
    print(*report(rows), sep="\n")
    print(f"{len(rows)} checks in {time.monotonic() - started:.0f} s, torch {torch.__version__}, {options.device}")
    alarms = summary(rows)["false alarms"]["checker"]
    return 1 if alarms else 0


def write(rows: list[Row], path: Path, *, measures: bool) -> None:
    """The rows and their summary, as JSON."""
    plain = [asdict(row) | ({} if measures else {"measured": []}) for row in rows]
    path.write_text(json.dumps({"torch": torch.__version__, "summary": summary(rows), "rows": plain}, indent=1))


if __name__ == "__main__":
    raise SystemExit(main())
