"""The ``compile_benchmark`` fixture: measure, compare with the baseline, confirm, and let the test say so."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from .. import settings
from ..baselines import files as baselines
from ..child import Child
from ..findings import CompileCheckFailed, Finding
from ..speed import fresh_process
from ..speed.deciding import stored_runs as record
from ..speed.deciding import wording as message
from ..speed.deciding.comparison import MIN_RUNS_OF_A_CODE, SpeedComparison
from ..speed.deciding.confirmation import Confirmation, NoFigures, confirm
from ..speed.deciding.scatter import METRICS, priors_of
from ..speed.deciding.verdict import Verdict
from ..speed.measuring.device import DeviceBusy, device_lock
from ..speed.measuring.stack_depth import with_spare_stack
from ..speed.sample import PRECISION, SECONDS, Figures, SpeedSample
from . import in_child, payload

Result = TypeVar("Result")
FIXTURE = "compile_benchmark"
BENCHMARK_ROUNDS = 50


class CompileSpeedWarning(UserWarning):
    """A speed test that could not be gated."""


class CompileBenchmark:
    """What the fixture hands to a test: call it with the target and its arguments."""

    def __init__(self, request: pytest.FixtureRequest, benchmark: Any, defaults: Mapping[str, Any]) -> None:
        self._item: Any = request.node
        self._benchmark = benchmark
        self._defaults = {"backend": settings.current.backend, **defaults}
        self._root = Path(self._item.config.rootpath)
        self._baselines = settings.below_root(self._root, settings.current.baselines)

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
        from ..legs.leg import argument_names
        from ..speed.measuring.bench import BENCH_OPTIONS, TORCH_COMPILE_OPTIONS, Bench, device_of, environment_of

        own = {"seconds": (seconds, SECONDS), "precision": (precision, PRECISION), "cold_start": (cold_start, False)}
        given = options | {name: value for name, (value, default) in own.items() if value != default}
        Keywords(FIXTURE, BENCH_OPTIONS | own.keys(), "kwargs").require_clear(target, args, given)
        chosen = {k: v for k, v in self._defaults.items() if k in BENCH_OPTIONS} | options
        if chosen.get("compile"):  # takes the place of how the suite compiles, but not of what this call asks for
            chosen = {k: v for k, v in chosen.items() if k not in TORCH_COMPILE_OPTIONS or k in options}
        if "dynamic_dims" not in options and (dims := chosen.get("dynamic_dims")):
            # They are those of a whole suite: not every target has an argument of each name.
            names = argument_names(target)
            chosen["dynamic_dims"] = {key: value for key, value in dims.items() if isinstance(key, int) or key in names}
        environment = environment_of(device_of(target, args, chosen.get("kwargs")))
        if settings.current.perf == "off":
            self._time(Bench(target, *args, **chosen))
            return None
        try:
            with device_lock(environment.get("uuid", "cpu")):
                bench = Bench(target, *args, **chosen)
                sample = bench.measure(seconds=seconds, precision=precision)
                self._time(bench)
                del bench
                return self._judge(sample, cold_start)
        except DeviceBusy as busy:
            self._report(Verdict("inconclusive", reason=str(busy)), [], environment, [])
            return None

    def _time(self, bench: Any) -> None:
        leg = bench.legs["compiled"]

        def timed() -> None:
            leg.run()
            bench.synchronize()

        with_spare_stack(self._benchmark.pedantic, timed, rounds=BENCHMARK_ROUNDS, warmup_rounds=2)

    def _judge(self, sample: SpeedSample, cold_start: bool) -> SpeedSample:
        """Compare the sample with the stored runs, with as many from fresh processes as that takes."""
        test = self._item.nodeid
        if cold_start and not os.environ.get(fresh_process.CONFIRMS):
            sample = self._with_start(sample)
        fresh_process.leave_sample(test, sample)
        stored = baselines.load(self._baselines, name_of(sample.environment))
        entry = stored.entries.get(test)
        runs, codes = record.runs_of(entry), record.codes_of(entry)
        priors = priors_of([alike for e in stored.entries.values() for alike in record.runs_by_source(e)])
        compare = partial(SpeedComparison.of, runs, codes, tests=in_child.speed_tests(self._item), priors=priors)
        problem = record.unknown_device(entry, sample.environment.get("uuid", ""))
        problems = [problem] if problem else []
        few = settings.current.update_baselines and len(runs) < MIN_RUNS_OF_A_CODE
        if few or os.environ.get(fresh_process.CONFIRMS):  # still being recorded, or it confirms
            confirmation = Confirmation(compare(sample.code), [sample], [*sample.problems, *problems])
        else:
            confirmation = confirm(compare, sample, self._another, problems)
        verdict = confirmation.verdict()
        if verdict.outcome == "no-baseline":
            missing = stored.missing if not stored.entries else f"{stored.path} has no entry for this test"
            verdict = Verdict("no-baseline", reason=missing)
        compared = confirmation.comparison.runs
        # The first process is the one to show, also where it does not count.
        taken = confirmation.counted if sample in confirmation.counted else [sample, *confirmation.counted]
        self._report(verdict, taken, sample.environment, compared)
        if verdict.outcome == "regressed" and settings.current.perf == "gate" and not settings.current.update_baselines:
            self._fail(verdict, compared, confirmation.figures)
        return sample

    def _fail(self, verdict: Verdict, stored: Sequence[Figures], new: Sequence[Figures]) -> None:
        evidence, hint = message.table(stored, new), message.where(verdict, stored, new)
        findings = [
            Finding(METRICS[change.metric].kind, message.headline(change), evidence=evidence, hint=hint)
            for change in verdict.changed("regressed")
        ]
        raise CompileCheckFailed(message.explain(self._item.nodeid, verdict, stored, new), None, findings)

    def _another(self, comparison: SpeedComparison) -> SpeedSample:
        """A sample of this test from a fresh process."""
        return self._in_fresh_process(fresh_process.compiled_anew if comparison.other else fresh_process.fresh_sample)

    def _with_start(self, sample: SpeedSample) -> SpeedSample:
        try:
            return replace(sample, start=self._in_fresh_process(fresh_process.cold_and_warm_start))
        except NoFigures as error:
            warnings.warn(CompileSpeedWarning(f"{self._item.nodeid}: no cold start: {error}"), stacklevel=2)
            return sample

    def _in_fresh_process(self, run: Callable[[Child], Result]) -> Result:
        """Measure this test again in a process that gives figures and judges none, with the same compile cache."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # the other process needs the memory
        child = in_child.child_for(self._item).with_options(compile_perf="track")
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        return run(child.with_options(compile_cache=cache) if cache else child)

    def _report(
        self,
        verdict: Verdict,
        samples: Sequence[SpeedSample],
        environment: Mapping[str, Any],
        compared: Sequence[Figures],
    ) -> None:
        test = self._item.nodeid
        if verdict.outcome in ("no-baseline", "inconclusive") and settings.current.perf == "gate":
            warnings.warn(CompileSpeedWarning(f"{test}: {verdict.outcome}: {verdict.reason}"), stacklevel=2)
        result: dict[str, Any] = {
            "test": test,
            "environment": name_of(environment),
            "outcome": verdict.outcome,
            "summary": message.summary(verdict),
            "changes": [asdict(change) for change in verdict.changes],
            "runs": [record.rounded(sample.figures()) for sample in samples],
            "stored_runs": len(compared),
        }
        if samples:
            result["sample"] = samples[0].to_dict()
        self._benchmark.extra_info[record.KEY] = dict(result)  # not the entry: it is in the baselines
        if samples:
            stats = getattr(self._benchmark, "stats", None)
            timed = stats.as_dict(include_data=False) if stats is not None else {"name": self._item.name}
            sound = [sample for sample in samples if sample is samples[0] or not sample.problems]
            result["entry"] = record.new_entry(test, timed, sound)
        payload.of(self._item).timings.append(result)


def name_of(environment: Mapping[str, Any]) -> str:
    """The folder of an environment's baselines."""
    return baselines.environment_name(environment["device"], environment["torch"], environment["cuda"])
