"""The ``compile_benchmark`` fixture. The fixture measures a target, compares the results with the baseline, confirms
changes with more measurements, and fails the test if there is a regression.
"""

from __future__ import annotations

import difflib
import os
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from .. import settings
from ..baselines import files as baselines
from ..baselines import structure
from ..cache.folder import INDUCTOR, empty_cache, is_kept
from ..child import Child
from ..findings import CompileCheckFailed, CompileUsageError, Finding
from ..speed import fresh_process, gpus
from ..speed.deciding import exact, stored_runs, times, wording
from ..speed.deciding.confirmation import Decision, NoFigures, decide
from ..speed.deciding.constants import FLOORS
from ..speed.deciding.exact import AllowMore
from ..speed.deciding.stored_runs import StoredTest
from ..speed.deciding.times import METRICS, Verdict
from ..speed.measuring import cores, turns
from ..speed.measuring.device import DeviceBusy
from ..speed.measuring.stack_depth import with_spare_stack
from ..speed.sample import PRECISION, SECONDS, SpeedSample
from . import in_child, payload
from .planned import compare_plan

if TYPE_CHECKING:
    from ..speed.measuring.bench import Bench

Result = TypeVar("Result")
FIXTURE = "compile_benchmark"
BENCHMARK_ROUNDS = 50


class CompileSpeedWarning(UserWarning):
    """Issued if a speed test has no baseline or its result is inconclusive, or if its cold start was not measured."""


class CompileBenchmark:
    """The value of the ``compile_benchmark`` fixture. Tests call this object with the target and the target's
    arguments.
    """

    def __init__(self, request: pytest.FixtureRequest, benchmark: Any, defaults: Mapping[str, Any]) -> None:
        self._request = request
        self._item: Any = request.node
        self._benchmark = benchmark
        self._defaults = {"backend": settings.current.backend, **defaults}
        self._root = Path(self._item.config.rootpath)
        self._baselines = settings.below_root(self._root, settings.current.baselines)
        self._missing = ""

    def __call__(
        self,
        target: Any,
        /,
        *args: Any,
        seconds: float = SECONDS,
        precision: float = PRECISION,
        cold_start: bool = False,
        allow_more: AllowMore | None = None,
        **options: Any,
    ) -> SpeedSample | None:
        """Time the compiled ``target(*args)`` with pytest-benchmark, and compare the compiled target with eager.

        With ``--compile-perf=off``, only pytest-benchmark times the target, and the call returns None. With
        ``--compile-plan`` on a machine without a CUDA device, the target is not timed, and the call returns None.
        Instead, Inductor generates code for the selected GPU, and the number of kernels and other counts of this code
        are compared with a separate baseline. With ``cold_start=True``, the target is also compiled in two fresh
        processes, first with an empty cache and then with the filled cache. ``allow_more`` allows counts to exceed
        their baseline: ``{"kernels": 10, "memory": 0.05, "guards": None}`` allows ten more kernels, 5% more memory, and
        any number of guards. All other options are passed to ``measure_compile``.

        Raises:
            CompileCheckFailed: If the target does not compile or, under ``--compile-perf=gate``, if a count is worse
                than its baseline or a slowdown is confirmed. With ``--compile-plan``, if a count for the generated code
                is worse than its baseline.
            CompileUsageError: If an option is unknown or invalid, or if an option and an argument of the target have
                the same name (then pass the target's arguments in ``kwargs``).
        """
        import torch

        from .._torch.compiling_on_device import compile_threads, reporting_use, timing_in
        from ..legs.keywords import Keywords
        from ..legs.targets import argument_names
        from ..speed.measuring.bench import BENCH_OPTIONS, TORCH_COMPILE_OPTIONS
        from ..speed.measuring.device_and_versions import device_of, environment_of

        own = {
            "seconds": (seconds, SECONDS),
            "precision": (precision, PRECISION),
            "cold_start": (cold_start, False),
            "allow_more": (allow_more, None),
        }
        given = options | {name: value for name, (value, default) in own.items() if value != default}
        Keywords(FIXTURE, BENCH_OPTIONS | own.keys(), "kwargs").require_clear(target, args, given)
        chosen = {k: v for k, v in self._defaults.items() if k in BENCH_OPTIONS} | options
        if chosen.get("compile"):  # ignore the suite's torch.compile options
            chosen = {k: v for k, v in chosen.items() if k not in TORCH_COMPILE_OPTIONS or k in options}
        if "dynamic_dims" not in options and (dims := chosen.get("dynamic_dims")):
            # dynamic_dims may be set for a whole suite, and not every target has arguments with these names.
            names = argument_names(target)
            chosen["dynamic_dims"] = {key: value for key, value in dims.items() if isinstance(key, int) or key in names}
        require_counted(allow_more)
        if settings.current.plan and not torch.cuda.is_available():
            self._plan(target, args, chosen, allow_more)
            return None
        environment = environment_of(device_of(target, args, chosen.get("kwargs")))
        if settings.current.perf == "off":
            self._time(_bench(target, args, chosen))
            return None
        stored, problems = self._stored(environment)
        uuid = environment.get("uuid", "cpu")
        # If there are stored runs without a persistent cache, start with an empty cache. In a process that confirms a
        # change, use the cache that the parent chose.
        told = bool(os.environ.get(fresh_process.CONFIRMS)) or not stored.runs
        kept = is_kept(settings.current.cache) and (told or times.is_kept(stored.runs))
        turns.register(uuid, pausable=False)  # unless this process is a worker, which is registered already
        # A process that cannot be paused compiles in its turn, so that it does not disturb other measurements.
        compiling = nullcontext() if turns.can_be_paused(uuid) else turns.measuring(uuid)
        try:
            with nullcontext() if kept else empty_cache(), compiling:
                with ExitStack() as choosing:
                    if "uuid" in environment:
                        choosing.enter_context(timing_in(partial(turns.choosing, uuid)))
                    if turns.can_be_paused(uuid) and cores.are_free():
                        use = partial(turns.stop_using, uuid), partial(turns.use_again, uuid)
                        choosing.enter_context(reporting_use(*use))
                    if os.environ.get(gpus.ONE_THREAD) and str(chosen.get("mode")).startswith("max-autotune"):
                        choosing.enter_context(compile_threads(gpus.AUTOTUNE_THREADS))
                    bench = _bench(target, args, chosen)
                with turns.measuring(uuid):
                    sample = replace(bench.measure(seconds=seconds, precision=precision), kept_cache=kept)
                    self._time(bench)
                del bench
            if cold_start and not os.environ.get(fresh_process.CONFIRMS):
                sample = self._with_start(sample)
            fresh_process.leave_sample(self._item.nodeid, sample)
            self._judge(sample, stored, problems, allow_more)
            return sample
        except DeviceBusy as busy:
            self._report(Decision([], Verdict("inconclusive", reason=str(busy))), environment, stored)
            return None

    def _plan(self, target: Any, args: Sequence[Any], chosen: Mapping[str, Any], allow_more: AllowMore | None) -> None:
        from ..legs.calls import Call

        # Without this, pytest-benchmark warns during the teardown that its fixture was not used.
        self._request.addfinalizer(lambda: setattr(self._benchmark, "skipped", True))
        # The second call is warm, as in a measurement, and its recompiles are counted.
        calls = [Call(tuple(args), dict(chosen.get("kwargs") or {}))] * 2
        compare_plan(self._item, target, calls, chosen, allow_more, stacklevel=4)

    def _time(self, bench: Any) -> None:
        leg = bench.legs["compiled"]

        def timed() -> None:
            leg.run()
            bench.synchronize()

        with_spare_stack(self._benchmark.pedantic, timed, rounds=BENCHMARK_ROUNDS, warmup_rounds=2)

    def _stored(self, environment: Mapping[str, Any]) -> tuple[StoredTest, list[str]]:
        """Return this test's stored runs and counts, and the reasons, if any, why new times cannot be compared with
        these runs.
        """
        test, name = self._item.nodeid, baselines.name_of(environment)
        speed = baselines.load(self._baselines, name)
        counted = baselines.load(self._baselines, name, "structure")
        gates = settings.current.perf == "gate" and not settings.current.update_baselines
        if (problem := speed.problem or counted.problem) and gates:
            raise CompileCheckFailed(f"the baseline cannot be used: {problem}", None)
        runs = stored_runs.runs_of(speed.entries.get(test))
        counts = structure.counts_of(counted.entries.get(test), environment["python"])
        self._missing = speed.missing if not speed.entries else f"the baseline {speed.path} has no entry for this test"
        kept = is_kept(settings.current.cache)
        problems = [
            stored_runs.unknown_device(runs, environment.get("uuid", "")),
            stored_runs.other_cache(runs, kept),
        ]
        return StoredTest(runs, counts), [problem for problem in problems if problem]

    def _judge(
        self, sample: SpeedSample, stored: StoredTest, problems: Sequence[str], allow_more: AllowMore | None
    ) -> None:
        """Compare the sample with the stored runs, measure again in fresh processes if needed, and report the result.
        Under ``--compile-perf=gate``, a regression fails the test.
        """
        recording = settings.current.update_baselines and not times.can_decide(stored.runs)
        confirms = recording or os.environ.get(fresh_process.CONFIRMS)
        another = None if confirms else partial(self._further, sample)
        tests = in_child.speed_tests(self._item)
        gates = settings.current.perf == "gate" and not settings.current.update_baselines
        # If a count already fails the test, do not confirm the times with more measurements, which may take minutes.
        decision = decide(
            stored, sample, another, tests=tests, allow_more=allow_more, problems=problems, until_red=gates
        )
        if decision.times.outcome == "no-baseline":
            decision = replace(decision, times=Verdict("no-baseline", reason=self._missing))
        self._report(decision, sample.environment, stored)
        if gates and (decision.worse or decision.times.outcome == "regressed"):
            self._fail(decision, stored)

    def _fail(self, decision: Decision, stored: StoredTest) -> None:
        findings = [
            Finding(
                difference.quantity.kind,
                str(difference),
                subject=difference.quantity.name,
                measured=difference.after,
                limit=difference.before,
            )
            for difference in decision.worse
        ]
        evidence, hint = wording.table(stored.runs, decision.samples), wording.where(decision, stored.runs)
        findings += [
            Finding(METRICS[change.metric][1], wording.headline(change), evidence=evidence, hint=hint)
            for change in decision.times.changed("regressed")
        ]
        raise CompileCheckFailed(wording.explain(self._item.nodeid, decision, stored), None, findings)

    def _further(self, first: SpeedSample, at_most: int) -> Generator[SpeedSample, None, None]:
        """Measure this test again in fresh processes, and yield the samples. If the first sample used a persistent
        compile cache, the fresh processes use this cache, too; otherwise, each process starts with an empty cache.
        """
        cache = os.environ.get(INDUCTOR) if first.kept_cache else None
        own = first.environment.get("uuid", "cpu")
        devices = gpus.own_and_others(own)
        if turns.can_be_paused(own):
            # Other tests run at the same time, and this test has reserved memory on this device only.
            devices, at_most = [own], min(at_most, turns.MOST_AT_ONCE)
        run = partial(fresh_process.fresh_samples, at_most=at_most, devices=devices, cache=cache, memory=first.memory)
        samples = self._in_fresh_processes(run)
        if first.start is None:
            yield from samples
        else:  # measure cold starts last, when no other compilation of this test runs
            yield from map(self._with_start, list(samples))

    def _with_start(self, sample: SpeedSample) -> SpeedSample:
        uuid = sample.environment.get("uuid", "cpu")
        try:
            with turns.measuring(uuid):
                start = self._in_fresh_processes(partial(fresh_process.cold_and_warm_start, uuid=uuid))
            return replace(sample, start=start)
        except (NoFigures, DeviceBusy) as error:
            warnings.warn(
                CompileSpeedWarning(f"{self._item.nodeid}: the cold start was not measured: {error}"), stacklevel=2
            )
            return sample

    def _in_fresh_processes(self, run: Callable[[Child], Result]) -> Result:
        """Call ``run`` with a child process that measures this test. The child uses ``--compile-perf=track``, so it
        does not fail on a regression.
        """
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # so that the fresh process can use this memory
        return run(in_child.child_for(self._item).with_options(compile_perf="track"))

    def _report(self, decision: Decision, environment: Mapping[str, Any], stored: StoredTest) -> None:
        test, verdict, samples = self._item.nodeid, decision.times, decision.samples
        open_times = verdict.outcome in ("no-baseline", "inconclusive") and not decision.worse
        if open_times and settings.current.perf == "gate":
            warnings.warn(CompileSpeedWarning(f"{test}: {verdict.outcome}: {verdict.reason}"), stacklevel=2)
        result: dict[str, Any] = {
            "test": test,
            "environment": baselines.name_of(environment),
            "outcome": "regressed" if decision.worse else verdict.outcome,
            "summary": wording.summary(decision),
            "changes": [{**asdict(change), "floor": FLOORS[change.metric], "note": ""} for change in verdict.changes],
            "exact": [difference.to_dict() for difference in decision.differences],
            "changed": decision.changed,
            "stored_runs": len(stored.runs),
        }
        if samples:
            result["sample"] = samples[0].to_dict()
        self._benchmark.extra_info[stored_runs.KEY] = dict(result)  # without the baseline entry, which is added below
        if samples:
            stats = getattr(self._benchmark, "stats", None)
            timed = stats.as_dict(include_data=False) if stats is not None else {"name": self._item.name}
            sound = [sample for sample in samples if sample is samples[0] or not sample.problems]
            result["entry"] = stored_runs.new_entry(test, timed, sound)
            counts = exact.merged(stored.counts, [sample.exact for sample in samples], decision.changed)
            result["counts"] = {**counts, "python": environment["python"]}
        payload.of(self._item).timings.append(result)


def _bench(target: Any, args: Sequence[Any], chosen: Mapping[str, Any]) -> Bench:
    """Create a ``Bench``, which warms up an eager and a compiled version of the target.

    Raises:
        CompileCheckFailed: If the target does not compile. The exception contains the findings of ``check_compile``.
    """
    from .._torch.machine_faults import machine_fault
    from ..check.check_compile import KEYWORDS, check_compile
    from ..legs.calls import Call
    from ..speed.measuring.bench import Bench

    try:
        return Bench(target, *args, **chosen)
    except CompileUsageError:
        raise
    except Exception as raised:
        if machine_fault(raised, compiling=True):
            raise
        error = raised
    # The target fails, so there is nothing to measure. A check explains the failure better than torch's error.
    same = {name: value for name, value in chosen.items() if name in KEYWORDS.options}
    check_compile(target, calls=[Call(tuple(args), chosen.get("kwargs") or {})], **{**same, "diagnose": "off"})
    raise error


def require_counted(allow_more: AllowMore | None) -> None:
    """Check the names and values in ``allow_more``.

    Raises:
        CompileUsageError: If a name is unknown or a value is invalid. The message shows valid names or values.
    """
    for name, allowed in (allow_more or {}).items():
        if name not in exact.NAMES:
            near = difflib.get_close_matches(name, exact.NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(exact.NAMES)}"
            raise CompileUsageError(f"allow_more: {name!r} is not a counted quantity: {hint}")
        if allowed is not None and name in exact.KEPT:
            raise CompileUsageError(
                f"allow_more: {name} can only be None, which turns off the comparison of this count; a number has no "
                "use, because only a decrease is a regression"
            )
        if allowed is not None and not (isinstance(allowed, (int, float)) and allowed >= 0):
            raise CompileUsageError(
                f"allow_more: {name} is {allowed!r}; it must be a count such as 10, a fraction such as 0.05, or None"
            )
