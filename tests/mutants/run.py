"""The mutation test and the false-alarm test of the checker, in parallel over the cores there are.

``python -m tests.mutants.run --mutants 1200 --seeds 23 --out mutants.jsonl`` writes one line per finished job; started
again with the same file, it goes on where it stopped. ``--table FILE...`` prints what files say without running.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.packed import pack, unpack
from tests.mutants.table import report, summary


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
    record: bool = False

    @property
    def key(self) -> str:
        """What the job is called in the output file."""
        return json.dumps(asdict(self), sort_keys=True)


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


def work(job: Job) -> tuple[Job, list[Row]]:
    """Everything of one job; what cannot run at all is a row of its own."""
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    try:
        from tests.mutants.bench import Bench

        bench = Bench(job)
        rows = [bench.honest(job.first + seed) for seed in range(1, job.seeds + 1)]
        rows += [bench.mutant(job.first + seed) for seed in range(1, job.mutants + 1)]
    except Exception:
        rows = [Row(job.model, job.dtype, job.train, 0, verdict="broken", findings=[traceback.format_exc()[-1500:]])]
    return job, rows


def jobs(options: argparse.Namespace) -> list[Job]:
    """The work, spread over models, dtypes and modes, slow jobs first; fp16 is for honest checks only."""
    from tests.mutants.models import MODELS

    names = list(MODELS)[: options.models] if not options.only else options.only.split(",")
    dtypes = options.dtypes.split(",")
    places = list(itertools.product((True, False), dtypes[::-1], names))
    mutated = [place for place in places if place[1] != "float16"]
    share, rest = divmod(options.mutants, max(1, len(mutated)))
    counts = {place: share + (index < rest) for index, place in enumerate(mutated)}
    more = (options.device, options.backend, options.first, options.record)
    made = [Job(m, dtype, train, counts.get((train, dtype, m), 0), options.seeds, *more) for train, dtype, m in places]
    return [piece for job in made for piece in pieces(job, 4 if options.backend == "inductor" else 8)]


def pieces(job: Job, size: int) -> Iterator[Job]:
    """The same job in pieces of at most ``size`` mutants and honest checks, for even loads."""
    for start in range(0, max(job.mutants, job.seeds), size):
        mutants, seeds = (max(0, min(size, total - start)) for total in (job.mutants, job.seeds))
        yield Job(**{**asdict(job), "mutants": mutants, "seeds": seeds, "first": job.first + start})


def finished(path: Path | None) -> dict[str, list[Row]]:
    """The jobs that a file holds, by key."""
    if path is None or not path.exists():
        return {}
    found = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    if lines and "about" in json.loads(lines[0]):
        return {"": unpack(path, Row)}
    for line in lines:
        job = json.loads(line)
        found[job["job"]] = [Row(**row) for row in job["rows"]]
    return found


def run(todo: list[Job], options: argparse.Namespace) -> list[Row]:
    """All rows: those that the output file holds already, and the rest as it gets done."""
    done = finished(options.out)
    rows = [row for job in todo for row in done.get(job.key, [])]
    missing = [job for job in todo if job.key not in done]
    started = time.monotonic()
    # A changed kernel may leave a GPU's context unusable: there, every job has a process of its own.
    tasks = 1 if options.device != "cpu" else 32
    with multiprocessing.get_context("spawn").Pool(options.processes, maxtasksperchild=tasks) as pool:
        for number, (job, found) in enumerate(pool.imap_unordered(work, missing), 1):
            rows += found
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"job": job.key, "rows": [asdict(row) for row in found]}) + "\n")
            print(progress(number, len(missing), rows, time.monotonic() - started), file=sys.stderr, flush=True)
            if time.monotonic() - started > options.deadline:
                pool.terminate()
                break
    return rows


def progress(number: int, jobs_in_all: int, rows: list[Row], seconds: float) -> str:
    """One line about how far a run has come."""
    mutants = [row for row in rows if row.kind]
    survived = sum(row.verdict == "survived" for row in mutants)
    alarms = sum(row.verdict == "false alarm" for row in rows)
    return (
        f"{number} of {jobs_in_all} jobs in {seconds:.0f} s: {len(mutants)} mutants, {survived} survived; "
        f"{len(rows) - len(mutants)} honest checks, {alarms} false alarms"
    )


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=1200)
    parser.add_argument("--seeds", type=int, default=23)
    parser.add_argument("--first", type=int, default=0, help="where seeds begin: other seeds, other inputs and changes")
    parser.add_argument("--models", type=int, default=99)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtypes", default="float32,bfloat16,float16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="captured", choices=["captured", "inductor"])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which what is not done is left")
    parser.add_argument("--record", action="store_true", help="keep leaves' measures too, for choosing constants")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pack", type=Path, help="write the rows here in few bytes, to keep")
    parser.add_argument("--about", default="", help="what to say of them: device, versions")
    parser.add_argument("--table", type=Path, nargs="+", help="print what these files hold, and run nothing")
    return parser.parse_args()


def main() -> int:
    """Run, print, write; 1 if an honest check was accused."""
    options = parse()
    if options.table:
        rows = [row for path in options.table for found in finished(path).values() for row in found]
    else:
        rows = run(jobs(options), options)
    if options.pack:
        pack(rows, options.pack, {"what": options.about})
    print(*report(rows), sep="\n")
    return 1 if summary(rows)["false alarms"]["checker"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
