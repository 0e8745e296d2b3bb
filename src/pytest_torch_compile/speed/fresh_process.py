"""Run one test again in a fresh process and read the sample it leaves."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from .deciding.confirmation import NoFigures
from .sample import SpeedSample

SAMPLES = "PYTEST_TORCH_COMPILE_SAMPLES"
CONFIRMS = "PYTEST_TORCH_COMPILE_CONFIRMS"


def leave_sample(test: str, sample: SpeedSample) -> None:
    """Write the sample for the process that asked for it through the environment, if one did."""
    folder = os.environ.get(SAMPLES)
    if folder:
        sample_path(Path(folder), test).write_text(
            json.dumps({"test": test, "sample": sample.to_dict()}), encoding="utf-8"
        )


def sample_path(folder: Path, test: str) -> Path:
    """Where the sample of a test lies."""
    return folder / f"{hashlib.sha256(test.encode()).hexdigest()[:24]}.json"


def read_samples(folder: Path) -> dict[str, SpeedSample]:
    """The samples left in a folder, by test id."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return {entry["test"]: SpeedSample.from_dict(entry["sample"]) for entry in found}


def fresh_sample(
    test: str,
    root: Path,
    arguments: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = 900.0,
) -> SpeedSample:
    """Run one test in a fresh process, tracking only, and return what it measured.

    Raises:
        NoFigures: it failed, was skipped, or took longer than ``seconds``.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", test, "--rootdir", str(root), *arguments]
        result = run_tests(command, root, Path(folder), seconds, {CONFIRMS: "1", **(environment or {})})
        samples = list(read_samples(Path(folder)).values())
    if not samples:
        raise NoFigures(f"the fresh process gave no figures: {result}")
    return samples[-1]


def run_tests(command: Sequence[str], cwd: Path, folder: Path, seconds: float, environment: Mapping[str, str]) -> str:
    """Run a pytest command that leaves its samples in ``folder``; returns the last line it printed."""
    everything = {**os.environ, **environment, SAMPLES: str(folder)}
    everything.pop("PYTEST_XDIST_WORKER", None)
    everything.pop("PYTEST_CURRENT_TEST", None)
    try:
        done = subprocess.run(
            command, cwd=cwd, env=everything, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {seconds:.0f} s"
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {done.returncode}, no output"


def compiled_anew(test: str, root: Path, arguments: Sequence[str] = ()) -> SpeedSample:
    """Run one test in a fresh process that finds an empty compile cache, and return what it measured.

    Memory is left out: a process that tuned holds the workspaces of libraries it tried, 34 MB for cuBLAS on an H200.

    Raises:
        NoFigures: the process gave no figures.
    """
    with tempfile.TemporaryDirectory() as cache:
        return replace(_with_cache(test, root, arguments, cache), memory=None)


def cold_and_warm_start(test: str, root: Path, arguments: Sequence[str] = ()) -> tuple[float, float]:
    """The compiled cold start in seconds with an empty compile cache, and again with the cache that left.

    Raises:
        NoFigures: a process gave no figures.
    """
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_with_cache(test, root, arguments, cache) for _ in range(2))
    return cold.cold_start[1], warm.cold_start[1]


def _with_cache(test: str, root: Path, arguments: Sequence[str], cache: str) -> SpeedSample:
    kept = [argument for argument in arguments if not argument.startswith("--compile-cache")]
    environment = {"TORCHINDUCTOR_CACHE_DIR": cache}
    return fresh_sample(test, root, [*kept, f"--compile-cache={cache}"], environment=environment)
