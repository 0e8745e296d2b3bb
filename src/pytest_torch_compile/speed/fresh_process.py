"""Measure one test again in a fresh process, and read the sample that it leaves."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..child import Child, Ended
from .deciding.confirmation import NoFigures
from .sample import SpeedSample

SAMPLES = "PYTEST_TORCH_COMPILE_SAMPLES"
CONFIRMS = "PYTEST_TORCH_COMPILE_CONFIRMS"


def leave_sample(test: str, sample: SpeedSample) -> None:
    """Write the sample for the process that asked for it through the environment, if one did."""
    if folder := os.environ.get(SAMPLES):
        name = hashlib.sha256(test.encode()).hexdigest()[:24]
        text = json.dumps({"test": test, "sample": sample.to_dict()})
        Path(folder, f"{name}.json").write_text(text, encoding="utf-8")


def run(
    child: Child, seconds: float, environment: Mapping[str, str | None] | None = None
) -> tuple[dict[str, SpeedSample], Ended]:
    """Run a child; the samples that it left, by test id, and how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        # pytest-benchmark times nothing in a worker of pytest-xdist, and the child of one is not a worker.
        ended = child.run({**(environment or {}), SAMPLES: folder, "PYTEST_XDIST_WORKER": None}, seconds)
        left = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("*.json"))]
    return {sent["test"]: SpeedSample.from_dict(sent["sample"]) for sent in left}, ended


def fresh_sample(child: Child, *, environment: Mapping[str, str] | None = None, seconds: float = 900.0) -> SpeedSample:
    """Run one test in a fresh process and return what it measured.

    Raises:
        NoFigures: it failed, was skipped, or took longer than ``seconds``.
    """
    samples, ended = run(child, seconds, {CONFIRMS: "1", **(environment or {})})
    if not samples:
        raise NoFigures(f"the fresh process gave no figures: {ended.last_line}")
    return list(samples.values())[-1]


def compiled_anew(child: Child) -> SpeedSample:
    """Run one test in a fresh process that finds an empty compile cache, and return what it measured.

    Memory is left out: a process that tuned holds the workspaces of libraries it tried, 34 MB for cuBLAS on an H200.

    Raises:
        NoFigures: the process gave no figures.
    """
    with tempfile.TemporaryDirectory() as cache:
        return replace(_with_cache(child, cache), memory=None)


def cold_and_warm_start(child: Child) -> tuple[float, float]:
    """The compiled cold start in seconds with an empty compile cache, and again with the cache that left.

    Raises:
        NoFigures: a process gave no figures.
    """
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_with_cache(child, cache) for _ in range(2))
    return cold.cold_start[1], warm.cold_start[1]


def _with_cache(child: Child, cache: str) -> SpeedSample:
    return fresh_sample(child.with_options(compile_cache=cache), environment={"TORCHINDUCTOR_CACHE_DIR": cache})
