"""Measure a test again in fresh processes, and read their samples."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ..cache.folder import variables
from ..child import Child, Ended
from ..disk import TemporaryFolder
from . import gpus
from .deciding.confirmation import NoFigures
from .sample import SpeedSample

SAMPLES = "PYTEST_TORCH_COMPILE_SAMPLES"
CONFIRMS = "PYTEST_TORCH_COMPILE_CONFIRMS"


def leave_sample(test: str, sample: SpeedSample) -> None:
    """Write the sample to the folder that an environment variable specifies; do nothing if it is not set."""
    if folder := os.environ.get(SAMPLES):
        name = hashlib.sha256(test.encode()).hexdigest()[:24]
        text = json.dumps({"test": test, "sample": sample.to_dict()})
        Path(folder, f"{name}.json").write_text(text, encoding="utf-8")


def run(
    child: Child, seconds: float, environment: Mapping[str, str | None] | None = None
) -> tuple[dict[str, SpeedSample], Ended]:
    """Run a child process; returns the child's samples, keyed by test id, and how the child ended."""
    with TemporaryFolder("torch-compile-samples-") as folder:
        # pytest-benchmark is disabled in pytest-xdist workers, but the child of a worker is not a worker.
        ended = child.run({**(environment or {}), SAMPLES: str(folder), "PYTEST_XDIST_WORKER": None}, seconds)
        left = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return {sent["test"]: SpeedSample.from_dict(sent["sample"]) for sent in left}, ended


def fresh_sample(
    child: Child, *, cache: str | None, environment: Mapping[str, str | None] | None = None, seconds: float = 900.0
) -> SpeedSample:
    """Run one test in a fresh process; returns its sample. If ``cache`` is None, the compile cache is empty at first.

    Raises:
        NoFigures: If the test failed, was skipped, or took longer than ``seconds``.
    """
    with ExitStack() as stack:
        folder = cache or str(stack.enter_context(TemporaryFolder("torch-compile-cache-")))
        changed = {CONFIRMS: "1", **variables(folder), **(environment or {})}
        samples, ended = run(child.with_options(compile_cache=folder), seconds, changed)
    if not samples:
        raise NoFigures(f"the fresh process returned no measurements: {ended.last_line}")
    return replace(list(samples.values())[-1], kept_cache=cache is not None)


def fresh_samples(child: Child, at_most: int, *, own: str, cache: str | None) -> Sequence[SpeedSample]:
    """Take at most ``at_most`` samples in parallel: one on the GPU ``own``, which this process has already locked, and
    one on each idle GPU.

    Raises:
        NoFigures: If a process returned no samples.
    """
    with gpus.free_ones(own, at_most) as free, ThreadPoolExecutor(len(free)) as pool:
        environments = [gpus.only(uuid, free) for uuid in free]
        return list(pool.map(lambda one: fresh_sample(child, cache=cache, environment=one), environments))


def cold_and_warm_start(child: Child) -> tuple[float, float]:
    """Return the compiled leg's cold start and warm start in seconds. Both are measured in fresh processes: the first
    process starts with an empty compile cache, and the second process uses the cache that the first one filled.

    Raises:
        NoFigures: If a process returned no measurements.
    """
    with TemporaryFolder("torch-compile-cache-") as cache:
        cold, warm = (fresh_sample(child, cache=str(cache)) for _ in range(2))
    return cold.cold_start[1], warm.cold_start[1]
