"""Measure time and memory with many checks, workers, calls, ops and parameters. Each measurement runs in a fresh
process with backend eager.

To measure another source tree, put it first on PYTHONPATH. `--small` divides every number by twenty.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

INSTALLED = any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11"))
PLUGIN = [] if INSTALLED else ["-p", "pytest_torch_compile.plugin"]
TESTS = """
import pytest, torch

@pytest.mark.parametrize("number", range({count}))
def test_check(compile_check, number):
    compile_check(torch.nn.Linear(4, 4), torch.randn(3, 4))
"""
Figures = dict[str, object]


def checks(count: int) -> Figures:
    """Run ``count`` checks in one process, and measure memory after the first tenth and at the end."""
    import torch

    from pytest_torch_compile import check_compile

    early = 0.0
    for number in range(count):
        check_compile(torch.nn.Linear(4, 4), torch.randn(3, 4), backend="eager")
        if number == count // 10:
            early = memory([os.getpid()])
    return {"memory_after_a_tenth_mb": round(early), "memory_at_the_end_mb": round(memory([os.getpid()]))}


def workers(count: int) -> Figures:
    """Run ``count`` tests on eight pytest-xdist workers, and write a report."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_load.py").write_text(TESTS.format(count=count), encoding="utf-8")
        (Path(folder) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        options = ["-q", *PLUGIN, "-n", "8", "--compile-backend=eager", "--compile-report=report"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options], cwd=folder, capture_output=True, text=True, check=False
        )
        tests = json.loads((Path(folder) / "report/report.json").read_text(encoding="utf-8"))["tests"]
    assert done.returncode == 0 and len(tests) == count, done.stdout[-2000:]
    return {}


def calls(count: int) -> Figures:
    """Run one check with ``count`` calls."""
    import torch

    from pytest_torch_compile import call, check_compile

    report = check_compile(
        torch.nn.Linear(4, 4), calls=[call(torch.randn(3, 4)) for _ in range(count)], backend="eager"
    )
    assert len(report.calls) == count
    return {}


def ops(count: int) -> Figures:
    """Check a function whose graph has ``count`` ops."""
    import torch

    from pytest_torch_compile import check_compile

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(count // 2):
            x = x.sin() * 2
        return x

    report = check_compile(chain, torch.randn(4), backend="eager")
    assert sum(len(graph.ops) for graph in report.graphs) >= count
    return {}


def parameters(count: int) -> Figures:
    """Check training of a module with ``count`` parameters."""
    import torch

    from pytest_torch_compile import check_compile

    class Many(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.all = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(2)) for _ in range(count)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.stack([parameter.sum() for parameter in self.all]).sum()

    check_compile(Many(), torch.randn(4), train=True, backend="eager")
    return {}


LOADS: dict[str, tuple[Callable[[int], Figures], int]] = {
    "checks": (checks, 1000),
    "workers": (workers, 400),
    "calls": (calls, 5000),
    "ops": (ops, 10_000),
    "parameters": (parameters, 2000),
}


def memory(processes: list[int]) -> float:
    """Return the memory of these processes in MB. Shared pages count for each process."""
    pages = 0
    for process in processes:
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        except OSError:  # the process has ended
            continue
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def descendants(process: int) -> list[int]:
    """Return the ids of a process and of all processes that it has started, directly or indirectly."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(status.parent.name))
    family = [process]
    for member in family:
        family += parents.get(member, [])
    return family


def measured(name: str, count: int) -> Figures:
    """Run one load in this process. Returns its time without imports, and the peak memory of the process and its
    children."""
    import torch  # noqa: F401

    import pytest_torch_compile.check.check_compile  # noqa: F401

    largest, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal largest
        while not ended.wait(0.5):
            largest = max(largest, memory(descendants(os.getpid())))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started, used = time.perf_counter(), os.times()
    figures = LOADS[name][0](count)
    seconds, now = time.perf_counter() - started, os.times()
    ended.set()
    processor = sum(now[:4]) - sum(used[:4])
    return {
        "load": name, "count": count, "seconds": round(seconds, 1), "processor_seconds": round(processor, 1),
        "largest_memory_mb": round(max(largest, memory([os.getpid()]))), **figures,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", choices=list(LOADS), action="append", help="default: all")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=2, metavar=("LOAD", "COUNT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure[0], int(options.measure[1]))))
        return 0
    rows = []
    for name in options.load or LOADS:
        count = LOADS[name][1] // (20 if options.small else 1)
        command = [sys.executable, __file__, "--measure", name, str(count)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(rows[-1]), flush=True)
        if options.out:
            options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
