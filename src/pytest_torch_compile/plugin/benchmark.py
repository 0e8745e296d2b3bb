"""The ``compile_benchmark`` fixture: measure, compare with the baseline, confirm, and let the test say so."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ..baselines import files as baselines
from ..child import Child
from ..findings import CompileCheckFailed, Finding
from ..speed import fresh_process as confirm
from ..speed.deciding import stored_runs as record
from ..speed.deciding import wording as message
from ..speed.deciding.comparison import FEWEST_RUNS, Held
from ..speed.deciding.confirmation import NoFigures, Settled, settle
from ..speed.deciding.scatter import METRICS, priors_of
from ..speed.deciding.verdict import Verdict
from ..speed.measuring.device import DeviceBusy, device_lock
from ..speed.measuring.stack_depth import with_room
from ..speed.sample import PRECISION, SECONDS, SpeedSample
from . import in_child, payload

FIXTURE = "compile_benchmark"
BENCHMARK_ROUNDS = 50


class CompileSpeedWarning(UserWarning):
    """A speed test that could not be gated."""


@dataclass(frozen=True)
class SpeedSettings:
    """The options in force: ``perf`` is off, track or gate."""

    perf: str = "off"
    baselines: Path = Path("baselines")
    update: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)


class CompileBenchmark:
    """What the fixture hands to a test: call it with the target and its arguments."""

    def __init__(self, request: pytest.FixtureRequest, benchmark: Any, settings: SpeedSettings) -> None:
        self._item: Any = request.node
        self._benchmark = benchmark
        self._settings = settings

    def __call__(
        self,
        target: Any,
        /,
        *args: Any,
        seconds: float = SECONDS,
        precision: float = PRECISION,
        cold_start: bool = False,
        **options: Any,
    ) -> SpeedSample | None:
        """Time ``target(*args)`` compiled through pytest-benchmark, and measure it against eager.

        With ``--compile-perf=off`` only pytest-benchmark times it, and nothing is returned. ``cold_start=True`` also
        compiles it in two fresh processes, with an empty and then a filled cache. The other options are those of
        ``measure_compile``.

        Raises:
            CompileCheckFailed: under ``--compile-perf=gate``, a confirmed regression.
            CompileUsageError: a keyword that is no option, or that the target knows too: those are given as ``kwargs``.
        """
        from ..legs.keywords import Keywords
        from ..speed.measuring.bench import BENCH_OPTIONS, Bench, device_of, environment_of

        own = {"seconds": (seconds, SECONDS), "precision": (precision, PRECISION), "cold_start": (cold_start, False)}
        given = options | {name: value for name, (value, default) in own.items() if value != default}
        Keywords(FIXTURE, BENCH_OPTIONS | own.keys(), "kwargs").require_clear(target, args, given)
        chosen = {k: v for k, v in self._settings.defaults.items() if k in BENCH_OPTIONS} | options
        environment = environment_of(device_of(target, args, chosen.get("kwargs")))
        if self._settings.perf == "off":
            self._time(Bench.of(target, *args, **chosen))
            return None
        try:
            with device_lock(environment.get("uuid", "cpu")):
                bench = Bench.of(target, *args, **chosen)
                sample = bench.measure(seconds=seconds, precision=precision)["compiled"]
                self._time(bench)
                del bench
                return self._settle(sample, cold_start)
        except DeviceBusy as busy:
            self._report(Verdict("inconclusive", reason=str(busy)), [], environment, [])
            return None

    def _time(self, bench: Any) -> None:
        leg = bench.legs["compiled"]

        def timed() -> None:
            leg.run()
            bench.synchronize()

        with_room(self._benchmark.pedantic, timed, rounds=BENCHMARK_ROUNDS, warmup_rounds=2)

    def _settle(self, sample: SpeedSample, cold_start: bool) -> SpeedSample:
        test = self._item.nodeid
        if cold_start and not os.environ.get(confirm.CONFIRMS):
            sample = self._with_start(sample)
        confirm.leave_sample(test, sample)
        found = baselines.load(self._settings.baselines, name_of(sample.environment))
        entry = found.entries.get(test)
        settled = self._settled(sample, found, entry)
        verdict = settled.verdict()
        if verdict.outcome == "no-baseline":
            missing = found.missing if not found.entries else f"{found.path} has no entry for this test"
            verdict = Verdict("no-baseline", reason=missing)
        taken = settled.counted if sample in settled.counted else [sample, *settled.counted]
        self._report(verdict, taken, sample.environment, settled.held.runs)
        self._fail(verdict, settled.held.runs, settled.figures)
        return sample

    def _settled(
        self, sample: SpeedSample, found: baselines.Baselines, entry: record.Entry | None
    ) -> Settled[SpeedSample]:
        """The sample with as many from fresh processes as its verdict takes."""
        priors = priors_of([alike for e in found.entries.values() for alike in record.runs_by_source(e)])
        runs, codes = record.runs_of(entry), record.codes_of(entry)
        against = partial(Held.of, runs, codes, tests=in_child.speed_tests(self._item), priors=priors)
        strange = record.strange_device(entry, sample.environment.get("uuid", ""))
        if os.environ.get(confirm.CONFIRMS) or (self._settings.update and len(runs) < FEWEST_RUNS):
            return Settled(against(sample.code), [sample], [*sample.problems, *filter(None, [strange])])
        return settle(against, sample, self._another, list(filter(None, [strange])))

    def _another(self, held: Held) -> SpeedSample:
        """A sample of this test from a fresh process."""
        _release_memory()
        run = confirm.compiled_anew if held.other else confirm.fresh_sample
        return run(self._child())

    def _with_start(self, sample: SpeedSample) -> SpeedSample:
        _release_memory()
        try:
            return replace(sample, start=confirm.cold_and_warm_start(self._child()))
        except NoFigures as error:
            warnings.warn(CompileSpeedWarning(f"{self._item.nodeid}: no cold start: {error}"), stacklevel=2)
            return sample

    def _report(
        self, verdict: Verdict, samples: Sequence[SpeedSample], environment: Mapping[str, Any], stored: Any
    ) -> None:
        test = self._item.nodeid
        if verdict.outcome in ("no-baseline", "inconclusive") and self._settings.perf == "gate":
            warnings.warn(CompileSpeedWarning(f"{test}: {verdict.outcome}: {verdict.reason}"), stacklevel=2)
        result: dict[str, Any] = {
            "test": test,
            "environment": name_of(environment),
            "outcome": verdict.outcome,
            "summary": message.summary(verdict),
            "changes": [asdict(found) for found in verdict.changes],
            "runs": [record.rounded(sample.figures()) for sample in samples],
            "stored_runs": len(stored),
        }
        if samples:
            result["sample"] = samples[0].to_dict()
            sound = [sample for sample in samples if sample is samples[0] or not sample.problems]
            result["entry"] = record.new_entry(test, self._benchmark_entry(), sound)
        self._benchmark.extra_info[record.KEY] = {name: value for name, value in result.items() if name != "entry"}
        payload.of(self._item).timings.append(result)

    def _benchmark_entry(self) -> dict[str, Any]:
        stats = getattr(self._benchmark, "stats", None)
        return stats.as_dict(include_data=False) if stats is not None else {"name": self._item.name}

    def _fail(self, verdict: Verdict, stored: Any, new: Any) -> None:
        if verdict.outcome != "regressed" or self._settings.perf != "gate" or self._settings.update:
            return
        text = message.explain(self._item.nodeid, verdict, stored, new)
        findings = [
            Finding(METRICS[c.metric].kind, message.headline(c), evidence=message.table(stored, new),
                    hint=message.where(verdict, stored, new))
            for c in verdict.changed("regressed")
        ]  # fmt: skip
        raise CompileCheckFailed(text, None, findings)

    def _child(self) -> Child:
        """A process that measures this test again: it gives figures and judges none, with the same compile cache."""
        child = in_child.child_for(self._item).with_options(compile_perf="track")
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        return child.with_options(compile_cache=cache) if cache else child


def name_of(environment: Mapping[str, Any]) -> str:
    """The folder of an environment's baselines."""
    return baselines.environment_name(environment["device"], environment["torch"], environment["cuda"])


def _release_memory() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
