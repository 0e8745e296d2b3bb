"""Create the report that the pictures in the documentation show.

The checks come from the reports passed as arguments, which are reports on the examples. The speed tests and the history
come from measurements on one H200: the last process of each case is compared with the other processes. One case is
slowed down on purpose.

    PYTHONPATH=src python -m benchmarks.pictures.make FOLDER REPORT...
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.speed.decide import measured
from pytest_torch_compile import __version__
from pytest_torch_compile.report import document, render, results
from pytest_torch_compile.speed.deciding import times
from pytest_torch_compile.speed.deciding.constants import FLOORS
from pytest_torch_compile.speed.deciding.wording import interval

DATA = Path(__file__).parent.parent / "speed" / "data"
ENVIRONMENT = "NVIDIA-H200_torch-2.11_cuda-13.0"
SLOWED = ("captioner-forward-default", "kernel", "10")  # one additional kernel that takes a tenth of the device time


def main(folder: Path, reports: Sequence[Path]) -> None:
    """Write report.json, report.html and summary.md."""
    made = document.merge([document.read(report) for report in reports])
    where = {"python": "3.12.11", "platform": "Linux", "torch": "2.11.0", "cuda": "13.0", "device": "NVIDIA H200"}
    key = results.environment_key(where)
    made = document.new(
        [*made["tests"], *(speed_test(case, key) for case in read("aa-1")[0]["cases"])],
        {**made["environments"], key: where},
        created=made["created"],
        version=__version__,
        exit_status=1,
        commit=made["commit"],
        history=[point(process, key) for process in read("aa-1")[:-1]],
    )
    render.write_all(made, folder)


def point(process: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the measurements of one process as a history point."""
    created = datetime.datetime.fromtimestamp(process["when"], datetime.timezone.utc).isoformat(timespec="seconds")
    walls = {case: measured(found).run.wall for case, found in process["cases"].items()}
    known = {"outcome": "passed", "breaks": 0, "recompiles": 0, "compile_seconds": 0.0}
    tests = {
        f"{key} {name_of(case)}": {**known, "speedup": round(wall.eager / wall.compiled, 4)}
        for case, wall in walls.items()
    }
    return {"created": created, "commit": "", "tests": tests}


def name_of(case: str) -> str:
    return f"suites/speed/test_speed.py::test_speed[{case}]"


def read(name: str) -> list[dict[str, Any]]:
    return list(json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))["runs"])


def speed_test(case: str, key: str) -> dict[str, Any]:
    """Return the report's entry for one case. For the case in ``SLOWED``, use the processes that were slowed down."""
    processes = [run["cases"][case] for run in read("aa-1") if case in run["cases"]]
    stored, new = [measured(process).run for process in processes[:-1]], [measured(processes[-1]).run]
    if case == SLOWED[0]:
        slowed = [run["cases"][case] for run in read("inject-1") if case in run["cases"]]
        new = [measured({**process["plain"], **process[SLOWED[1]][SLOWED[2]]}).run for process in slowed]
    verdict = times.judge(stored, new, tests=13)
    shown = {name: time for name in ("wall", "host", "device") if (time := getattr(new[-1], name))}
    result = {
        "environment": ENVIRONMENT,
        "outcome": verdict.outcome,
        "summary": ", ".join(map(interval, verdict.changed("regressed"))) or verdict.reason,
        "changes": [{**asdict(change), "floor": FLOORS[change.metric], "note": ""} for change in verdict.changes],
        "exact": [],
        "stored_runs": len(stored),
        "sample": {
            # Recorded in microseconds.
            **{name: {"eager": pair.eager / 1e6, "compiled": pair.compiled / 1e6} for name, pair in shown.items()},
            "kernels": processes[-1].get("kernels"),
        },
    }
    failed = verdict.outcome == "regressed"
    return {
        "id": name_of(case),
        "file": "suites/speed/test_speed.py",
        "line": 1,
        "environment": key,
        "outcome": "failed" if failed else "passed",
        "duration": processes[-1]["spent"],
        "message": result["summary"] if failed else "",
        "checks": [],
        "speed": [results.speed_entry(result)],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(given) for given in sys.argv[2:]])
