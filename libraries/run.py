"""Run the battery: `python -m libraries.run --out FILE [--only kornia timm/Attention] [--backend inductor]`.

Two processes run at a time, one for the plugin and one for the oracle, each on one package. If a process crashes or
takes too long, only the running target is lost, and another process continues after it. Targets on which they disagree
are run again, each in a separate process. Targets that have a result in FILE are not run again, unless `--again` is
set.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

from . import verdicts
from .targets import MODES, factories, package_names

Task = tuple[str, str]  # name and mode
SIDES = ("product", "oracle")
RUNNING: set[int] = set()  # the processes of workers, each the leader of its group
ALONE = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: Process.end_all())
    battery = Battery(options.out, options.backend, options.limit)
    battery.run(options.only, again=options.again)
    wrong = battery.disagreements()
    for line in wrong:
        print(line)
    return int(bool(wrong))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m libraries.run", description=__doc__)
    made.add_argument("--out", type=Path, required=True, help="the JSON document with all results")
    made.add_argument("--only", nargs="*", default=[], metavar="PACKAGE[/TARGET]", help="run only these, in this order")
    made.add_argument(
        "--again", action="store_true", help="run disagreements again; with --only, run all selected targets again"
    )
    made.add_argument("--backend", default="aot_eager")
    made.add_argument("--limit", type=float, default=60, help="the time limit for one target, in seconds")
    return made


@dataclass
class Battery:
    """Run the battery, and collect the results in one document."""

    path: Path
    backend: str
    limit: float
    document: dict[str, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, only: Sequence[str], again: bool = False) -> None:
        self.document = self._read()
        if again and not only:
            only = [line.partition(":")[0].rpartition(" ")[0] for line in self.disagreements()]
            if not only:
                return
        chosen = dict.fromkeys(one.partition("/")[0] for one in only) or package_names()
        for package in chosen:
            tasks = self._tasks(package, only, again)
            if not tasks:
                continue
            start = time.monotonic()
            self._ask_both(package, tasks)
            self._ask_alone(package, tasks)
            print(f"{package}: {len(tasks)} tasks in {time.monotonic() - start:.0f} s", flush=True)

    def _read(self) -> dict[str, Any]:
        import torch

        environment = {
            "torch": torch.__version__.split("+")[0],
            "python": platform.python_version(),
            "backend": self.backend,
        }
        if self.path.exists():
            kept: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            if kept["environment"] == environment:
                for check in [check for package in kept["packages"].values() for check in package["checks"].values()]:
                    check["differ"] = verdicts.compared(check["product"], check["oracle"])
                return kept
        return {"environment": environment, "packages": {}}

    def _tasks(self, package: str, only: Sequence[str], again: bool) -> list[Task]:
        kept = {} if again else self.document["packages"].get(package, {})
        done = {*kept.get("checks", {}), *kept.get("left_out", [])}
        wanted = {one.partition("/")[2] for one in only if one.partition("/")[0] == package}
        names = [name for name in factories(package) if not only or wanted & {"", name}]
        return [(name, mode) for name in names for mode in MODES if f"{name} {mode}" not in done]

    def _ask_both(self, package: str, tasks: list[Task]) -> None:
        answers: dict[str, dict[Task, Any]] = {side: {} for side in SIDES}
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda side: self._ask(side, package, tasks, answers), SIDES))

    def _ask(self, side: str, package: str, tasks: list[Task], answers: dict[str, dict[Task, Any]]) -> None:
        """Store the results of the plugin or the oracle for a package. If a process ends early, only its current target
        is lost.
        """

        def keep(task: Task, words: Any) -> None:
            with self.lock:
                answers[side][task] = words
                if all(task in answers[one] for one in SIDES):
                    self._keep(package, task, answers["product"][task], answers["oracle"][task])

        while left := [task for task in tasks if task not in answers[side]]:
            current, why = Process(side, package, self.backend, self.limit).run(left, keep)
            if why:
                print(f"{package}/{' '.join(current or left[0])}: {side} {why}", flush=True)
                keep(current or left[0], {"crash": why, "seconds": 0.0})

    def _ask_alone(self, package: str, tasks: list[Task]) -> None:
        """Run the targets with disagreements again, each in separate processes."""
        checks = self.document["packages"].get(package, {}).get("checks", {})
        for task in tasks:
            first = checks.get(" ".join(task), {}).get("differ")
            if first and verdicts.UNUSABLE not in first.values():
                self._ask_both(package, [task])
                if not checks[" ".join(task)]["differ"]:
                    checks[" ".join(task)]["only_in_company"] = first
                    self._write()

    def _keep(self, package: str, task: Task, product: Any, oracle: Any) -> None:
        empty: dict[str, Any] = {"version": version_of(package), "checks": {}, "left_out": []}
        kept = self.document["packages"].setdefault(package, empty)
        if product is None or oracle is None:  # there is nothing to train, or only training is possible
            kept["left_out"].append(" ".join(task))
            return
        differ = verdicts.compared(product, oracle)
        kept["checks"][" ".join(task)] = {"product": product, "oracle": oracle, "differ": differ}
        said = "; ".join(f"{aspect}: {how}" for aspect, how in differ.items()) or "agree"
        print(f"{package}/{' '.join(task)}: {said} ({product['seconds']} s, {oracle['seconds']} s)", flush=True)
        self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.document, indent=1, sort_keys=True)
        partial = self.path.with_suffix(".part")
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self.path)

    def disagreements(self) -> list[str]:
        """A line for each check in which the plugin and the oracle differ."""
        return [
            f"{package}/{name}: {'; '.join(f'{aspect}: {how}' for aspect, how in check['differ'].items())}"
            for package, kept in self.document["packages"].items()
            for name, check in kept["checks"].items()
            if check["differ"]
        ]


def version_of(package: str) -> str:
    """The version of the distribution from which a package is imported, which may have a different name."""
    names = packages_distributions().get(package, [])
    return version(names[0]) if names else ""


@dataclass
class Process:
    """Follow a worker until it ends or one target takes too long."""

    side: str
    package: str
    backend: str
    limit: float

    def run(self, tasks: list[Task], keep: Callable[[Task, Any], None]) -> tuple[Task | None, str]:
        """Store each result. If the worker ended early, also store its current target and the reason."""
        with tempfile.TemporaryDirectory(prefix="libraries-") as folder:
            lines, output = Path(folder) / "lines.jsonl", Path(folder) / "output.txt"
            lines.touch()
            command = [
                sys.executable,
                "-m",
                "libraries.worker",
                self.side,
                self.package,
                self.backend,
                json.dumps(tasks),
            ]
            with output.open("w", encoding="utf-8") as stream:
                process = subprocess.Popen(
                    [*command, str(lines)], stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
                    env={**os.environ, **ALONE},
                )  # fmt: skip
                RUNNING.add(process.pid)
                try:
                    return self._follow(process, lines, output, keep)
                finally:
                    self.end(process.pid)
                    process.wait()
                    RUNNING.discard(process.pid)

    @staticmethod
    def end(group: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)

    @classmethod
    def end_all(cls) -> None:
        """Terminate all workers; the threads that wait for them end with this process."""
        for group in list(RUNNING):
            cls.end(group)
        os._exit(143)

    def _follow(
        self, process: subprocess.Popen[bytes], lines: Path, output: Path, keep: Callable[[Task, Any], None]
    ) -> tuple[Task | None, str]:
        current: Task | None = None
        since, rest = time.monotonic(), ""
        with lines.open(encoding="utf-8") as stream:
            while True:
                ended = process.poll() is not None
                *whole, rest = (rest + stream.read()).split("\n")
                for said in map(json.loads, whole):
                    since = time.monotonic()
                    if "begin" in said:
                        current = tuple(said["begin"])
                    elif "end" in said:
                        current = None
                        keep(tuple(said["end"]), said["words"])
                if ended:
                    tail = " ".join(output.read_text(encoding="utf-8", errors="replace").split())[-300:]
                    return current, f"ended with {process.returncode}: {tail}" if process.returncode else ""
                if time.monotonic() - since > self.limit:
                    return current, f"took longer than {self.limit:.0f} s"
                time.sleep(0.1)


if __name__ == "__main__":
    raise SystemExit(main())
