"""Turn recorded A/A runs into the committed baselines of the speed suite: the runs of each case become its entry.

PYTHONPATH=src python3 benchmarks/speed/to_baselines.py benchmarks/speed/data/aa*.json --baselines baselines
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replay import figures

from pytest_torch_compile import baselines
from pytest_torch_compile.speed import record
from pytest_torch_compile.speed.sample import Figures

TEST = "suites/speed/test_speed.py::test_speed[{}]"
WORK = {"forward": "forward", "backward": "forward and backward", "step": "train step"}


def main() -> None:
    """Read the runs, write the entries."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("runs", type=Path, nargs="+")
    options.add_argument("--baselines", type=Path, default=Path("baselines"))
    options.add_argument("--environment", default="NVIDIA-H200_torch-2.11_cuda-13.0")
    chosen = options.parse_args()
    cases: dict[str, list[dict[str, Any]]] = {}
    for path in chosen.runs:
        for run in json.loads(path.read_text())["runs"]:
            for name, case in run["cases"].items():
                if "error" not in case and not case["problems"]:
                    cases.setdefault(name, []).append(case)
    entries = {TEST.format(name): entry(name, found) for name, found in cases.items()}
    done = baselines.update(chosen.baselines, chosen.environment, lambda stored: entries)
    print(f"{done.path}: {len(done.rows)} of {len(entries)} entries changed")


def entry(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    """A baseline entry from the runs of one case, in seconds, with pytest-benchmark's figures of the last run."""
    parts = next(part for part in (name.partition(f"-{w}-") for w in WORK) if part[1])
    runs = [in_seconds(figures(case)) for case in found]
    return {
        "fullname": TEST.format(name),
        "name": f"test_speed[{name}]",
        "group": None,
        "param": name,
        "params": None,
        "options": {},
        "stats": stats(found[-1]),
        "extra_info": {
            record.KEY: {
                "schema_version": record.SCHEMA_VERSION,
                "what": WORK[parts[1].strip("-")],
                "mode": parts[2],
                "kernels": found[-1]["kernels"],
                "devices": [case["device_uuid"] for case in found][-record.ENOUGH_RUNS :],
                "runs": [record.rounded(run) for run in runs[-record.ENOUGH_RUNS :]],
            }
        },
    }


def in_seconds(run: Figures) -> Figures:
    """The recorded times are microseconds; bytes stay bytes."""
    return {n: (e, c, ratio) if n == "memory" else (e / 1e6, c / 1e6, ratio) for n, (e, c, ratio) in run.items()}


def stats(case: Mapping[str, Any]) -> dict[str, Any]:
    """What pytest-benchmark shows of an entry, from the rounds of the compiled leg."""
    from pytest_benchmark.stats import Stats

    found = Stats()
    for micros in case["wall"]["compiled"]:
        found.update(micros / 1e6)
    return {**found.as_dict(), "iterations": case["calls"][1]}


if __name__ == "__main__":
    main()
