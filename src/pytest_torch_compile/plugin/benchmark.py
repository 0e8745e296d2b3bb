"""The ``compile_benchmark`` fixture: the options of a test, pytest-benchmark's timing, and the report of the result.

``speed/measured_test.py`` measures the target and decides the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from .. import settings
from ..findings import CompileUsageError
from ..speed.deciding.exact import AllowMore, require_counted
from ..speed.deciding.stored_runs import KEY
from ..speed.measured_test import SpeedTest, measured_test
from ..speed.measuring.stack_depth import with_spare_stack
from ..speed.sample import PRECISION, SECONDS, SpeedSample
from . import in_child, payload
from .plan_session import compare_plan

if TYPE_CHECKING:
    from ..speed.measuring.bench import Bench

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
        self._is_timed = False
        self._defaults = {"backend": settings.current.backend, **defaults}

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
            CompileUsageError: If the test has already timed a target, if an option is unknown or invalid, or if an
                option and an argument of the target have the same name (then pass the target's arguments in
                ``kwargs``).
        """
        if self._is_timed:
            raise CompileUsageError(
                f"{FIXTURE} can time only one target in each test: write one test for each target, or parametrize the "
                "test"
            )
        import torch

        from ..check.warm_bench import warm_bench
        from ..legs.targets import device_of
        from ..speed.measuring.device_and_versions import environment_of

        own = {
            "seconds": (seconds, SECONDS),
            "precision": (precision, PRECISION),
            "cold_start": (cold_start, False),
            "allow_more": (allow_more, None),
        }
        chosen = self._chosen(target, args, options, own)
        require_counted(allow_more)
        if settings.current.plan and not torch.cuda.is_available():
            self._plan(target, args, chosen, allow_more)
            return None
        warm_up = partial(warm_bench, target, args, chosen)
        if settings.current.perf == "off":
            self._time(warm_up())
            return None
        test = SpeedTest(
            self._item.nodeid,
            tests=in_child.speed_tests(self._item),
            folder=settings.below_root(self._item.config.rootpath, settings.current.baselines),
            child=in_child.child_for(self._item),
            environment=environment_of(device_of(target, args, chosen.get("kwargs"))),
            warm_up=warm_up,
            time=self._time,
            warn=self._warn,
            seconds=seconds,
            precision=precision,
            cold_start=cold_start,
            allow_more=allow_more,
        )
        measured = measured_test(test)
        self._benchmark.extra_info[KEY] = measured.result
        payload.of(self._item).timings.append(measured.result | measured.to_store)
        if measured.failure:
            raise measured.failure
        return measured.sample

    def _chosen(
        self, target: Any, args: Sequence[Any], options: dict[str, Any], own: Mapping[str, tuple[Any, Any]]
    ) -> dict[str, Any]:
        """Return the options of ``measure_compile``: those of this call, and those of the test that can be applied.
        ``own`` contains the fixture's own options, each with its default.

        Raises:
            CompileUsageError: If an option is unknown, or has the name of an argument of the target.
        """
        from ..legs.keywords import Keywords
        from ..legs.targets import argument_names
        from ..speed.measuring.bench import BENCH_OPTIONS, TORCH_COMPILE_OPTIONS

        given = options | {name: value for name, (value, default) in own.items() if value != default}
        Keywords(FIXTURE, BENCH_OPTIONS | own.keys(), "kwargs").require_clear(target, args, given)
        chosen = {k: v for k, v in self._defaults.items() if k in BENCH_OPTIONS} | options
        if chosen.get("compile"):  # ignore the suite's torch.compile options
            chosen = {k: v for k, v in chosen.items() if k not in TORCH_COMPILE_OPTIONS or k in options}
        if "dynamic_dims" not in options and (dims := chosen.get("dynamic_dims")):
            # dynamic_dims may be set for a whole suite, and not every target has arguments with these names.
            names = argument_names(target)
            chosen["dynamic_dims"] = {key: value for key, value in dims.items() if isinstance(key, int) or key in names}
        return chosen

    def _plan(self, target: Any, args: Sequence[Any], chosen: Mapping[str, Any], allow_more: AllowMore | None) -> None:
        from ..legs.calls import Call

        # Without this, pytest-benchmark warns during the teardown that its fixture was not used.
        self._request.addfinalizer(lambda: setattr(self._benchmark, "skipped", True))
        # The second call is warm, as in a measurement, and its recompiles are counted.
        calls = [Call(tuple(args), dict(chosen.get("kwargs") or {}))] * 2
        compare_plan(self._item, target, calls, chosen, allow_more, stacklevel=4)

    def _time(self, bench: Bench) -> dict[str, Any]:
        """Time the compiled target with pytest-benchmark, and return pytest-benchmark's entry without the rounds."""
        leg = bench.legs["compiled"]
        self._is_timed = True  # pytest-benchmark can time only once in each test

        def timed() -> None:
            leg.run()
            bench.synchronize()

        with_spare_stack(self._benchmark.pedantic, timed, rounds=BENCHMARK_ROUNDS, warmup_rounds=2)
        stats = getattr(self._benchmark, "stats", None)
        return dict(stats.as_dict(include_data=False)) if stats is not None else {"name": self._item.name}

    def _warn(self, text: str) -> None:
        warnings.warn(CompileSpeedWarning(f"{self._item.nodeid}: {text}"), stacklevel=1)
