"""Runs of the plugin killed at random moments; counts what they leave: `python -m tests.stress.kills --kills 200`.

Only the process that a user would kill gets the signal, SIGKILL and SIGTERM in turn: what it started has to end by
itself. A few kills follow each other in one folder, and then a run that is left alone. Needs /proc, so Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from pytest_torch_compile.baselines import files
from pytest_torch_compile.cache.store import ArtifactsRefused, Store
from pytest_torch_compile.report import document

ROOT = Path(__file__).parents[2]
SOURCES = Path(files.__file__).parents[2]
# Where the tests run from a source tree that is not installed, pytest is told of the plugin.
INSTALLED = any(entry.name == "torch_compile" for entry in metadata.entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "pytest_torch_compile.plugin")
TOKEN = "PYTEST_TORCH_COMPILE_STRESS"
ORPHAN_SECONDS = 10.0
LONGEST_RUN = 300.0
KILLS_BEFORE_A_RUN = 5
# What a run leaves on purpose. Others leave the rest: torch its default cache folder, multiprocessing its sockets.
KEPT = ("structure.json", "speed.json", "report.json", "report.html", "summary.md", "*.artifacts", "*.lock")
NOT_OURS = ("torchinductor_*", "pymp-*", "pytest-of-*")
# Torch 2.6 makes a folder with this file where it imports torch.distributed, and removes it at a normal end only.
FILE_OF_TORCH = "_remote_module_non_scriptable.py"

TESTS = """
import pytest, torch
from pytest_torch_compile import check_compile, run_ranks

@pytest.mark.parametrize("size", range(2, 6))
def test_check(compile_check, size):
    compile_check(torch.nn.Linear(4, 4), torch.randn(size, 4))
"""
RANKS = """
import torch
from pytest_torch_compile import check_compile, run_ranks

def checked():
    check_compile(torch.nn.Linear(4, 4), torch.randn(3, 4))

def test_ranks(compile_check):
    for _ in range(2):
        run_ranks(checked, 2)
"""


@dataclass
class Counts:
    """What a scenario's kills left, all told; ``names`` are examples of it."""

    kills: int = 0
    sigkill: int = 0
    sigterm: int = 0
    ended_before: int = 0
    orphans: int = 0
    damaged_files: int = 0
    temporary_after_kills: int = 0
    temporary_after_next_run: int = 0
    next_runs: int = 0
    failed_next_runs: int = 0
    names: list[str] = field(default_factory=list)

    def note(self, *names: str) -> None:
        """Keep a few examples."""
        self.names = [*dict.fromkeys([*self.names, *names])][:20]


@dataclass(frozen=True)
class Scenario:
    """``command`` runs until it is killed if ``forever``, else to its end; ``once`` is the next run."""

    name: str
    command: list[str]
    once: list[str]
    tests: str = ""
    forever: bool = False


def pytest_run(name: str, *options: str, tests: str = TESTS) -> Scenario:
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGIN,
        "--compile-backend=eager", "--compile-report=report", "--compile-baselines=baselines", "--compile-perf=track",
        "--compile-update-baselines", *options,
    ]  # fmt: skip
    return Scenario(name, command, command, tests)


def writer(what: str) -> Scenario:
    command = [sys.executable, "-m", "tests.stress.writers", what, what]
    return Scenario(what, [*command, "0"], [*command, "1"], forever=True)


SCENARIOS = (
    pytest_run("plain"),
    pytest_run("isolated", "--compile-isolate"),
    pytest_run("xdist", "-n", "2"),
    pytest_run("ranks", tests=RANKS),
    writer("baselines"),
    writer("report"),
    writer("store"),
)


class Folder:
    """Where one scenario runs, with a temporary folder of its own, and all of its processes known by a variable."""

    def __init__(self, scenario: Scenario, place: Path) -> None:
        self.scenario, self.place = scenario, place
        self.token = uuid.uuid4().hex
        self.temporary = place / "tmp"
        self.temporary.mkdir()
        if scenario.tests:
            (place / "test_stress.py").write_text(scenario.tests, encoding="utf-8")
            (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def start(self, command: list[str]) -> subprocess.Popen[str]:
        environment = {
            **os.environ, TOKEN: self.token, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)]),
        }  # fmt: skip
        for variable in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_ADDOPTS"):
            environment.pop(variable, None)
        with (self.place / "output.txt").open("w", encoding="utf-8") as file:
            output = subprocess.PIPE if self.scenario.forever else file
            return subprocess.Popen(command, cwd=self.place, env=environment, stdout=output, stderr=file, text=True)

    def last_lines(self) -> str:
        """The end of what the last run printed."""
        return "\n".join((self.place / "output.txt").read_text(encoding="utf-8", errors="replace").splitlines()[-15:])

    def processes(self) -> list[int]:
        """The processes of this scenario that still run, zombies left out."""
        token, running = f"{TOKEN}={self.token}".encode(), []
        for entry in Path("/proc").glob("[0-9]*/environ"):
            try:
                if token in entry.read_bytes():
                    running.append(int(entry.parent.name))
            except OSError:  # it has ended, or is another user's
                continue
        return running

    def damaged(self) -> Iterator[str]:
        """The files that a reader of the plugin refuses."""
        for path in self.place.rglob("structure.json"):
            if problem := files.load(path.parents[1], path.parent.name, "structure").problem:
                yield problem
        for path in self.place.rglob("report.json"):
            try:
                document.read(path)
            except document.DocumentError as error:
                yield str(error)
        for path in self.place.rglob("report.html"):
            if not path.read_text(encoding="utf-8").rstrip().endswith("</html>"):
                yield f"{path} has no end"
        for path in self.place.glob("store/*.artifacts"):
            from tests.stress.writers import STORED_ON

            try:
                Store(path.parent.as_uri()).read(STORED_ON)
            except ArtifactsRefused as error:
                yield str(error)
        yield from map(str, self.place.rglob("*.corrupt-*"))  # what a run has refused and set aside

    def temporaries(self) -> list[str]:
        """What lies beside the files that are kept, and in the temporary folder."""
        kept = [path for name in ("baselines", "report", "store") for path in (self.place / name).rglob("*")]
        beside = [path for path in kept if path.is_file() and not any(map(path.match, KEPT))]
        inside = [path for path in self.temporary.iterdir() if not any(map(path.match, (*KEPT, *NOT_OURS)))]
        inside = [path for path in inside if not (path / FILE_OF_TORCH).exists()]
        return [path.relative_to(self.place).as_posix() for path in (*beside, *inside)]


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (is_done := done()) and time.monotonic() < end:
        time.sleep(0.1)
    return is_done


def run_to_the_end(folder: Folder) -> tuple[int | None, float]:
    started = time.monotonic()
    process = folder.start(folder.scenario.once)
    try:
        process.communicate(timeout=LONGEST_RUN)
    except subprocess.TimeoutExpired:  # a lock that a killed run has left?
        end_all(folder)
        process.wait()
        return None, LONGEST_RUN
    return process.returncode, time.monotonic() - started


def kill(folder: Folder, number: signal.Signals, seconds: float, counts: Counts) -> None:
    """One run, killed after so many seconds, or so many after its first file where it writes forever."""
    process = folder.start(folder.scenario.command)
    if process.stdout is not None:
        process.stdout.readline()
    time.sleep(seconds)
    if process.poll() is None:
        process.send_signal(number)
        counts.kills += 1
        counts.sigkill += number is signal.SIGKILL
        counts.sigterm += number is signal.SIGTERM
    else:  # no kill: the next one may come in time
        counts.ended_before += 1
    # A run that ends in order at SIGTERM needs its time; what outlives it has 10 s.
    wait_until(lambda: process.poll() is not None, 60)
    wait_until(lambda: not folder.processes(), ORPHAN_SECONDS)
    left = folder.processes()
    counts.orphans += len(left)
    counts.note(*(f"orphan: {command_of(pid)}" for pid in left))
    end_all(folder)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
    damaged = list(folder.damaged())
    counts.damaged_files += len(damaged)
    counts.note(*(f"damaged: {text}" for text in damaged))


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "ended since"


def end_all(folder: Folder) -> None:
    """End what is left of this scenario, and nothing else."""
    for pid in folder.processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    wait_until(lambda: not folder.processes(), 5)


def count_kills(scenario: Scenario, kills: int, seed: int) -> Counts:
    """So many kills of one scenario. The moments are spread over the length of a whole run."""
    counts, moments = Counts(), random.Random(f"{seed} {scenario.name}")
    while counts.kills < kills:
        with tempfile.TemporaryDirectory(prefix="stress-") as place:
            folder = Folder(scenario, Path(place))
            status, length = run_to_the_end(folder)
            if status != 0:
                raise RuntimeError(f"{scenario.name}: a run that nobody kills ends with {status}")
            for _ in range(min(KILLS_BEFORE_A_RUN, kills - counts.kills)):
                number = signal.SIGTERM if counts.kills % 2 else signal.SIGKILL
                kill(folder, number, moments.uniform(0.0, 0.3 if scenario.forever else length), counts)
            counts.temporary_after_kills += len(folder.temporaries())
            status, _ = run_to_the_end(folder)
            counts.next_runs += 1
            if status != 0:
                counts.failed_next_runs += 1
                counts.note(f"next run ended with {status}: {folder.last_lines()}")
            left = folder.temporaries()
            counts.temporary_after_next_run += len(left)
            counts.note(*(f"temporary: {name}" for name in left))
            damaged = list(folder.damaged())
            counts.damaged_files += len(damaged)
            counts.note(*(f"damaged: {text}" for text in damaged))
            end_all(folder)
            print(scenario.name, json.dumps(asdict(counts)), flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="all told (default 200)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--scenario", action="append", choices=[scenario.name for scenario in SCENARIOS])
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="scenarios at a time")
    parser.add_argument("--out", type=Path, help="write the counts as JSON")
    options = parser.parse_args()
    scenarios = [scenario for scenario in SCENARIOS if scenario.name in (options.scenario or scenario.name)]
    print(f"seed {options.seed}", flush=True)
    share, rest = divmod(options.kills, len(scenarios))
    shares = [share + (place < rest) for place in range(len(scenarios))]
    counts_of: dict[str, dict[str, object]] = {}
    bad = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        names = {
            pool.submit(count_kills, scenario, share, options.seed): scenario.name
            for scenario, share in zip(scenarios, shares, strict=True)
        }
        for future in as_completed(names):
            try:
                counts = future.result()
            except RuntimeError as error:  # it does not run here; the others go on
                print(error, flush=True)
                counts = Counts(failed_next_runs=1, names=[str(error)])
            counts_of[names[future]] = asdict(counts)
            bad += counts.orphans + counts.damaged_files + counts.temporary_after_next_run + counts.failed_next_runs
            if options.out:
                document = {"seed": options.seed, "scenarios": counts_of}
                options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
