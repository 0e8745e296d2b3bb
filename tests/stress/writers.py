"""A process that writes one kind of file as fast as it can, until it is killed: `python -m tests.stress.writers`."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import Any

from pytest_torch_compile.baselines import files
from pytest_torch_compile.cache.store import Part, Store
from pytest_torch_compile.report import document, render

ENVIRONMENT = "cpu_torch-2.13"
STORED_ON = {"torch": "2.13", "device": "cpu"}
TESTS = 200


def write_baselines(folder: Path, number: int) -> None:
    check = {
        "target": "model", "backend": "inductor", "checked_mode": "fullgraph", "graphs": [number + 1],
        "graph_breaks": [], "recompiles": 0, "cudagraph_skips": 0,
    }  # fmt: skip
    entries: dict[str, dict[str, Any]] = {
        f"test_{test}": {"fullname": f"test_{test}", "checks": [check], "kernels": [[0, number]]}
        for test in range(TESTS)
    }
    files.update(folder, ENVIRONMENT, lambda stored: entries, "structure")


def write_report(folder: Path, number: int) -> None:
    environment = {"python": "3.11", "platform": "Linux", "torch": "2.13", "cuda": None, "device": "cpu"}
    tests = [
        {
            "id": f"test_{test}", "file": "test_a.py", "line": test, "environment": "here", "outcome": "passed",
            "duration": 0.1, "message": f"run {number}", "checks": [], "speed": [],
        }
        for test in range(TESTS)
    ]  # fmt: skip
    created = "2026-01-01T00:00:00+00:00"
    render.write_all(document.new(tests, {"here": environment}, created=created, version="0.1"), folder)


def write_store(folder: Path, number: int) -> None:
    Store(folder.as_uri()).write([Part(f"run {number}", bytes(1 << 20))], STORED_ON)


WRITERS = {"baselines": write_baselines, "report": write_report, "store": write_store}


def main(what: str, folder: str, times: int) -> None:
    for number in range(times) if times else count():
        WRITERS[what](Path(folder).resolve(), number)
        if number == 0:
            print("written", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
