"""Run measurements in fresh processes, one after another on one device, and store the results as JSON.

A process imports its modules while the previous process measures. It uses the device only when its turn comes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Measure = Callable[[argparse.Namespace, str], dict[str, Any]]
_logs: dict[int, Any] = {}


def main(script: str, description: str, measure: Measure, tiny: str) -> None:
    """Start the fresh processes, or act as one of them. ``tiny`` lists the cases that ``--tiny`` runs."""
    options = parser(description).parse_args()
    if options.tiny:
        options.cases, options.seconds, options.backend = tiny, 0.3, "eager"
    if options.turn >= 0:
        serve(options, measure)
    else:
        drive(script, options, sys.argv[1:])


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser for the options that all experiments share."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--out", type=Path, help="JSON file to write; runs already in the file count as well")
    options.add_argument("--processes", type=int, default=20, help="total number of fresh processes")
    options.add_argument("--cases", default="core", help="core, all, rest, or names joined by commas")
    options.add_argument(
        "--seconds", type=float, default=4.0, help=("maximum duration of the rounds of one measurement in seconds")
    )
    options.add_argument("--precision", type=float, default=0.002)
    options.add_argument("--budget-seconds", type=float, default=520.0)
    options.add_argument("--device", default="cuda")
    options.add_argument(
        "--tiny", action="store_true", help="test the script with one or two small cases and backend eager"
    )
    options.add_argument("--backend", default="inductor")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--prewarm", type=int, default=4, help="processes that fill the compile cache first; 0 for none"
    )
    options.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "speed-inductor-cache")
    options.add_argument("--load-cache", type=Path, help="tar file to fill the compile cache from")
    options.add_argument("--save-cache", type=Path, help="tar file to save the compile cache to")
    for side in ("kernel", "host"):
        sizes = "sizes of the slowdowns in percent, for inject.py"
        options.add_argument(f"--{side}-levels", default="1,2,3,5,10,20", help=sizes)
    options.add_argument("--lead-in", action="store_true", help="start each block with untimed calls, for inject.py")
    options.add_argument("--brief", action="store_true", help="store only what the gate reads, not every round")
    options.add_argument("--turn", type=int, default=-1, help=argparse.SUPPRESS)
    options.add_argument("--only-compile", action="store_true", help=argparse.SUPPRESS)
    return options


def drive(script: str, options: argparse.Namespace, argv: list[str]) -> None:
    """Start fresh processes one after another until enough of them have returned results or the time is up."""
    start = time.monotonic()
    document = _read(options.out)
    if options.load_cache and options.load_cache.exists() and not options.cache.exists():
        with tarfile.open(options.load_cache) as archive:
            archive.extractall(options.cache, filter="data")
    if options.prewarm:
        _prewarm(script, options, argv)
        print(f"prewarmed in {time.monotonic() - start:.0f} s", flush=True)
    durations: list[float] = []
    waiting = None
    while len(document["runs"]) < options.processes:
        left = options.budget_seconds - (time.monotonic() - start)
        if left < 1.15 * max(durations, default=0.0):
            print("time is up", flush=True)
            break
        turn = 1 + max((run["turn"] for run in document["runs"]), default=-1)
        current = waiting or _start(script, argv, options, turn)
        last = len(document["runs"]) + 1 >= options.processes
        began = time.monotonic()
        _go(current)
        waiting = None if last else _start(script, argv, options, turn + 1)
        answer = _answer(current, max(30.0, left))
        durations.append(time.monotonic() - began)
        if answer is None:
            break
        document["runs"].append(answer)
        _write(options.out, document)
        spent = " ".join(f"{name}={case.get('error', case['spent'])}" for name, case in answer["cases"].items())
        print(f"run {turn}: {durations[-1]:.1f} s; {spent}", flush=True)
    if waiting:
        waiting.kill()
    if options.save_cache:
        with tarfile.open(options.save_cache, "w:xz", preset=1) as archive:
            archive.add(options.cache, arcname=".")


def serve(options: argparse.Namespace, run: Measure) -> None:
    """Run inside a fresh process: import, wait for the turn, run the cases in a process-specific order, and send the
    results."""
    sys.path.insert(0, str(ROOT))
    import torch
    import torch._inductor.compile_fx
    import torchvision
    import transformers

    from suites.speed.cases import CASES

    print("ready", flush=True)
    sys.stdin.readline()
    if options.device == "cuda":
        torch.cuda.init()
    names = chosen(CASES, options.cases)
    random.Random(f"{options.seed}/{options.turn}").shuffle(names)
    began = time.perf_counter()
    answer: dict[str, Any] = {"turn": options.turn, "when": round(time.time()), "cases": {}}
    for order, name in enumerate(names):
        started = time.perf_counter()
        try:
            found = run(options, name)
        except Exception as error:  # one broken case must not waste the device time of the other cases
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        torch.compiler.reset()
        if options.device == "cuda":
            torch.cuda.empty_cache()
        answer["cases"][name] = {"order": order, "spent": round(time.perf_counter() - started, 2), **found}
    answer["spent"] = round(time.perf_counter() - began, 1)
    answer["versions"] = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "torchvision": torchvision.__version__,
    }
    print("answer " + json.dumps(answer, separators=(",", ":")), flush=True)


def chosen(cases: dict[str, Any], wanted: str) -> list[str]:
    """Return the names of the cases that ``--cases`` selects."""
    if wanted in ("all", "core", "rest"):
        return [n for n, case in cases.items() if wanted == "all" or case.core == (wanted == "core")]
    return wanted.split(",")


def compact(sample: Any) -> dict[str, Any]:
    """Return the data from which the results can be recomputed, including the microseconds per call of every round and
    profiler session.
    """
    times = {q: {leg: micros(v) for leg, v in legs.items()} for q, legs in sample.raw.items() if legs["eager"]}
    memory = sample.memory and [round(sample.memory.eager), round(sample.memory.compiled)]
    return {
        **times,
        "calls": sample.calls_per_round,
        "kernels": sample.kernels,
        "python_calls": sample.python_calls,
        "memory": memory,
        "cold": [round(s, 3) for s in sample.cold_start],
        "device_uuid": sample.environment.get("uuid"),
        "state": sample.state.get("after"),
        "problems": sample.problems,
    }


def micros(seconds: list[float]) -> list[float]:
    """Convert seconds to microseconds with two decimals, which are short in JSON."""
    return [round(value * 1e6, 2) for value in seconds]


def _start(script: str, argv: list[str], options: argparse.Namespace, turn: int, *extra: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(options.cache),
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, script, *argv, "--turn", str(turn), *extra]
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115 (open as long as its process runs)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=ROOT
    )
    _logs[process.pid] = log
    return process


def _log(process: subprocess.Popen[str]) -> str:
    log = _logs[process.pid]
    log.seek(0)
    return log.read()[-3000:]


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin and process.stdout
    while True:
        line = process.stdout.readline()
        if line == "ready\n":
            break
        if not line:
            raise SystemExit(f"a process ended before it was ready: {_log(process)}")
    process.stdin.write("go\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[str], seconds: float) -> dict[str, Any] | None:
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        print("a run took longer than the remaining time", flush=True)
        return None
    lines = [line for line in text.splitlines() if line.startswith("answer ")]
    if not lines:
        raise SystemExit(f"a process returned no result: exit {process.returncode}: {_log(process)}")
    return json.loads(lines[-1][len("answer ") :])


def _prewarm(script: str, options: argparse.Namespace, argv: list[str]) -> None:
    """Fill the compile cache: first with several processes at the same time, and then with one process for each
    autotuned case.
    """
    sys.path.insert(0, str(ROOT))
    from suites.speed.cases import CASES

    names = chosen(CASES, options.cases)
    tuned = [n for n in names if n in CASES and "autotune" in CASES[n].mode]
    plain = [n for n in names if n not in tuned]
    shares = [plain[i :: options.prewarm] for i in range(options.prewarm)]
    for group in ([share for share in shares if share], [[name] for name in tuned]):
        started = [_start(script, argv, options, 0, "--only-compile", "--cases", ",".join(share)) for share in group]
        for process in started:
            _go(process)
        for process in started:
            _answer(process, options.budget_seconds)


def _read(path: Path) -> dict[str, Any]:
    if path and path.exists():
        return json.loads(path.read_text())
    return {"schema_version": 1, "runs": []}


def _write(path: Path, document: dict[str, Any]) -> None:
    text = json.dumps(document, separators=(",", ":")).replace('{"turn"', '\n{"turn"')
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").replace(path)
