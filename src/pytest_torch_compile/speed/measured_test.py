"""Measure one speed test: load its baseline, measure it when its turn comes, confirm a change with further compilations
in fresh processes, and decide the result. This module does not import pytest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import settings
from ..baselines.files import name_of
from ..cache.folder import empty_cache, is_kept
from ..child import Child
from ..findings import CompileCheckFailed
from . import fresh_process
from .deciding import exact, stored_runs, times, wording
from .deciding.confirmation import Decision, decide
from .deciding.stored_runs import StoredTest
from .measuring import turns
from .measuring.device import DeviceBusy
from .measuring.sharing import sharing_the_device
from .sample import PRECISION, SECONDS, SpeedSample

if TYPE_CHECKING:
    from .measuring.bench import Bench


@dataclass(frozen=True)
class SpeedTest:
    """One speed test of a session, and how to measure it.

    ``name`` is the test's id, ``tests`` the number of speed tests in the run, and ``folder`` the baselines folder.
    ``child`` runs the test again in a fresh process. ``environment`` describes the device and the versions. ``warm_up``
    compiles the target; ``time`` times the compiled target with pytest-benchmark, and returns pytest-benchmark's entry.
    ``warn`` shows a warning about the test. For the other fields, see ``compile_benchmark``.
    """

    name: str
    tests: int
    folder: Path
    child: Child
    environment: Mapping[str, Any]
    warm_up: Callable[[], Bench]
    time: Callable[[Bench], Mapping[str, Any]]
    warn: Callable[[str], None]
    seconds: float = SECONDS
    precision: float = PRECISION
    cold_start: bool = False
    allow_more: exact.AllowMore | None = None

    @property
    def uuid(self) -> str:
        """The UUID of the GPU, or ``cpu``."""
        return str(self.environment.get("uuid", "cpu"))


@dataclass(frozen=True)
class MeasuredTest:
    """What was measured and decided.

    ``result`` is the test's result as JSON-ready data, and ``to_store`` what ``--compile-update-baselines`` adds to the
    baselines. ``sample`` is None if the device stayed busy. ``failure`` is the exception that fails the test, if any.
    """

    result: dict[str, Any]
    to_store: dict[str, Any] = field(default_factory=dict)
    sample: SpeedSample | None = None
    failure: CompileCheckFailed | None = None


def measured_test(test: SpeedTest) -> MeasuredTest:
    """Measure a speed test, and compare it with its stored runs and counts. Under ``--compile-perf=gate``, a regression
    is a failure.

    Raises:
        CompileCheckFailed: If the target does not compile or, under ``--compile-perf=gate``, if a baseline cannot be
            read.
    """
    gates, kept = settings.current.gates, is_kept(settings.current.cache)
    stored = stored_runs.stored_test(test.folder, test.name, test.environment, kept_cache=kept, gates=gates)
    confirms = bool(os.environ.get(fresh_process.CONFIRMS))
    try:
        sample, timed = _measured_here(test, stored, confirms)
        if test.cold_start and not confirms:
            sample = fresh_process.with_start(test.child, sample, test.warn)
        fresh_process.leave_sample(test.name, sample, test.allow_more)
        decision = _decision(test, stored, sample, confirms)
    except DeviceBusy as busy:
        verdict = times.Verdict("inconclusive", reason=str(busy))
        return MeasuredTest(_result(test, stored, Decision([], verdict)))
    failed = gates and (decision.worse or decision.times.outcome == "regressed")
    return MeasuredTest(
        _result(test, stored, decision),
        _to_store(test, stored, decision, timed),
        sample,
        wording.failure(test.name, decision, stored) if failed else None,
    )


def _measured_here(test: SpeedTest, stored: StoredTest, confirms: bool) -> tuple[SpeedSample, Mapping[str, Any]]:
    """When this process's turn comes, compile and measure. Return the measurements, and pytest-benchmark's entry."""
    # If there are stored runs without a persistent cache, start with an empty cache. In a process that confirms a
    # change, use the cache that the parent chose.
    kept = is_kept(settings.current.cache) and (confirms or not stored.runs or times.is_kept(stored.runs))
    turns.register(test.uuid, pausable=False)  # unless this process is a worker, which is registered already
    # A process that cannot be paused waits for its turn to compile, so that it does not disturb other measurements.
    compiling = nullcontext() if turns.can_be_paused(test.uuid) else turns.measuring(test.uuid)
    with nullcontext() if kept else empty_cache(), compiling:
        with sharing_the_device(test.uuid):
            bench = test.warm_up()
        with turns.measuring(test.uuid):
            sample = bench.measure(seconds=test.seconds, precision=test.precision)
            timed = test.time(bench)
    del bench
    turns.stop_using(test.uuid)  # until the next test, so that a process that measures does not delay the decision
    return replace(sample, kept_cache=kept), timed


def _decision(test: SpeedTest, stored: StoredTest, sample: SpeedSample, confirms: bool) -> Decision:
    """Compare the sample with the stored runs, and measure again in fresh processes if needed."""
    return decide(
        stored,
        sample,
        None if confirms else partial(fresh_process.further_samples, test.child, sample, test.warn),
        tests=test.tests,
        allow_more=test.allow_more,
        gates=settings.current.gates,
        recording=settings.current.update_baselines and not times.can_decide(stored.runs),
    )


def _result(test: SpeedTest, stored: StoredTest, decision: Decision) -> dict[str, Any]:
    """Return the result as JSON-ready data, after a warning if the gate could not judge the times."""
    verdict = decision.times
    is_open = verdict.outcome in ("no-baseline", "inconclusive") and not decision.worse
    if is_open and settings.current.perf == "gate":
        test.warn(f"{verdict.outcome}: {verdict.reason}")
    result: dict[str, Any] = {
        "test": test.name,
        "environment": name_of(test.environment),
        "outcome": "regressed" if decision.worse else verdict.outcome,
        "summary": wording.summary(decision),
        "changes": [change.to_dict() for change in verdict.changes],
        "exact": [difference.to_dict() for difference in decision.differences],
        "changed": decision.changed,
        "stored_runs": len(stored.runs),
    }
    return result | ({"sample": decision.samples[0].to_dict()} if decision.samples else {})


def _to_store(test: SpeedTest, stored: StoredTest, decision: Decision, timed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the baseline entry with the runs whose times can be used, and the counts."""
    samples = decision.samples
    sound = [sample for sample in samples if sample is samples[0] or not sample.problems]
    counts = exact.merged(stored.counts, [sample.exact for sample in samples], decision.changed)
    return {
        "entry": stored_runs.new_entry(test.name, timed, sound),
        "counts": {**counts, "python": test.environment["python"]},
    }
