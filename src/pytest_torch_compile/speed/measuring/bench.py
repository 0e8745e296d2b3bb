"""Measure a target eager and compiled, side by side in one process."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..._torch import code
from ..._torch.reset import drop_workspaces
from ..._torch.trace import not_captured
from ..._torch.warning_filters import calm
from ...legs.keywords import clear_keywords, keyword_options
from ..deciding.statistics import fmean, half_width, log_ratios, median, trimmed_mean
from ..sample import PRECISION, SECONDS, Paired, SpeedSample
from . import kernels, timing
from .device import device_problems, device_state, processes_of_holders
from .python_calls import python_calls
from .stack_depth import with_room
from .workload import workload

SESSIONS = 3
PROFILED_SECONDS = 0.01


@dataclass
class Leg:
    """One way to run the target, warm: the call itself, and what getting there cost."""

    run: timing.Run
    calls: int = 1
    cold_start: float = 0.0
    memory: int = 0


class Bench:
    """Several legs of one target, built and warm, to be measured together. The first is the reference."""

    def __init__(self, builders: Mapping[str, Callable[[], timing.Run]], device: torch.device) -> None:
        self.device = device
        self.what, self.mode = "forward", "default"
        self._cuda = device.type == "cuda"
        self.timer = timing.timer_for(device)
        if self._cuda:
            kernels.start_profiler()
        self._before = self._state()
        self._loaded = code.loaded()
        with calm(), not_captured():  # what users compile outside of pytest is not traced, and starts sooner
            self.legs = {name: self._warm(build) for name, build in builders.items()}

    @classmethod
    def of(
        cls,
        target: Any,
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        train: bool | Callable[[Any], Any] = False,
        optimizer: Callable[[Iterable[Any]], Any] | None = None,
        mode: str | None = None,
        backend: str = "inductor",
        options: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        fullgraph: bool = False,
        compile: Callable[[Any], Any] | None = None,
    ) -> Bench:
        """``target(*args, **kwargs)`` eager and compiled, each with its own copy of the target and the inputs.

        ``train=True`` adds the backward through every floating output, a callable ``train`` computes the loss, and
        ``optimizer`` (``params -> Optimizer``) makes it a whole train step. ``compile`` is any
        ``callable(target) -> compiled``; without it ``torch.compile`` is called with the options given here.
        """
        settings = {"mode": mode, "backend": backend, "options": options, "dynamic": dynamic, "fullgraph": fullgraph}
        compiler = compile or (lambda t: torch.compile(t, **settings))

        def build(how: Callable[[Any], Any] | None) -> timing.Run:
            return workload(copy.deepcopy(target), args, kwargs, train, optimizer, how)

        legs = {"eager": lambda: build(None), "compiled": lambda: build(compiler)}
        bench = cls(legs, device_of(target, args, kwargs))
        bench.what = "train step" if optimizer else "forward and backward" if train else "forward"
        bench.mode = mode or "default"
        return bench

    @calm()
    def measure(
        self, *, seconds: float = SECONDS, precision: float = PRECISION, raw: bool = False
    ) -> dict[str, SpeedSample]:
        """A sample of each leg but the first, against the first."""
        runs = {name: leg.run for name, leg in self.legs.items()}
        calls = {name: leg.calls for name, leg in self.legs.items()}
        with timing.quiet_host():
            rounds = with_room(timing.interleave, runs, calls, self.timer, seconds=seconds, precision=precision)
            device, counts = with_room(self._profile, runs, calls)
            called = {name: python_calls(run) for name, run in runs.items()}  # last, as it unsettles the interpreter
        shared = self._circumstances(rounds)
        reference, *others = self.legs
        return {
            name: replace(
                self._sample(rounds, device, counts, (reference, name), raw),
                python_calls=_both(called[reference], called[name]),
                **shared,
            )
            for name in others
        }

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self.timer.synchronize()

    def _warm(self, build: Callable[[], timing.Run]) -> Leg:
        if self._cuda:
            _forget_what_is_gone()
        held = _held() if self._cuda else 0
        leg = Leg(build())
        leg.cold_start, steady = timing.warm_up(leg.run, self.timer)
        leg.calls = timing.calls_per_block(steady)
        if self._cuda:
            _forget_what_is_gone()
            leg.run()
            leg.memory = _held() - held + _transient_memory(leg.run)
            # A call that is waited for takes longer than one of many, so the block is sized again.
            leg.calls = timing.calls_per_block(self.timer.block(leg.run, leg.calls)[0])
        return leg

    def _profile(
        self, runs: Mapping[str, timing.Run], calls: Mapping[str, int]
    ) -> tuple[dict[str, list[float]], dict[str, int]]:
        if not self._cuda:
            return {}, {}
        share = PROFILED_SECONDS / timing.BLOCK_SECONDS
        profiled = {name: max(6, min(200, round(count * share))) for name, count in calls.items()}
        return kernels.interleaved_device_times(runs, profiled, SESSIONS)

    def _sample(
        self, rounds: timing.Rounds, device: Mapping[str, list[float]], counts: Mapping[str, int],
        pair: tuple[str, str], raw: bool,
    ) -> SpeedSample:  # fmt: skip
        wall, host = ({leg: [times[i] for times in rounds[leg]] for leg in pair} for i in (0, 1))
        eager, compiled = (self.legs[leg] for leg in pair)
        sample = SpeedSample(
            wall=_paired(wall, pair),
            cold_start=(eager.cold_start, compiled.cold_start),
            calls_per_round=(eager.calls, compiled.calls),
        )
        kept = {"wall": wall}
        if self._cuda:
            spent = {leg: device[leg] for leg in pair}
            kept |= {"host": host, "device": spent}
            sample = replace(
                sample,
                host=_paired(host, pair),
                device=_paired(spent, pair),
                memory=_bytes(eager.memory, compiled.memory),
                kernels=(counts[pair[0]], counts[pair[1]]),
            )
        named = {q: {"eager": legs[pair[0]], "compiled": legs[pair[1]]} for q, legs in kept.items()}
        return replace(sample, raw=named) if raw else sample

    def _circumstances(self, rounds: timing.Rounds) -> dict[str, Any]:
        state = {"before": self._before, "after": self._state()}
        problems = device_problems(state["before"], state["after"], processes_of_holders())
        if not self._cuda:
            problems = (f"{self.device.type.upper()} figures are shown, not judged and not stored",)
        return {
            "environment": environment_of(self.device),
            "state": state,
            "problems": problems,
            "rounds": min(len(times) for times in rounds.values()),
            "what": self.what,
            "mode": self.mode,
            "code": code.identity(self._loaded),
        }

    def _state(self) -> dict[str, Any]:
        return device_state(environment_of(self.device)["uuid"]) if self._cuda else {}


BENCH_OPTIONS = keyword_options(Bench.of)


@clear_keywords("kwargs", also=BENCH_OPTIONS)
def measure_compile(
    target: Any,
    /,
    *args: Any,
    seconds: float = SECONDS,
    precision: float = PRECISION,
    raw: bool = False,
    **options: Any,
) -> SpeedSample:
    """Measure ``target(*args)`` eager and compiled, in interleaved rounds.

    Rounds stop when the 95 % interval of the ratio is within ``precision``, or after ``seconds``. Compiling,
    autotuning and CUDA graph recording are excluded, and reported as cold start. ``raw=True`` keeps every round.
    The other options are those of ``Bench.of``.
    """
    return Bench.of(target, *args, **options).measure(seconds=seconds, precision=precision, raw=raw)["compiled"]


def _forget_what_is_gone() -> None:
    """Let go of what earlier tests or tuning left: it would be counted as given back, or as kept, by this leg.

    cuBLAS takes a workspace at its first product, so that a leg's memory would depend on whether it is the first.
    """
    gc.collect()
    torch.cuda.synchronize()
    drop_workspaces()
    torch.cuda.empty_cache()


def _transient_memory(run: timing.Run) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = _requested("current")
    run()
    torch.cuda.synchronize()
    return _requested("peak") - held


def _held() -> int:
    """Bytes in use, and those that the pools of CUDA graphs keep from everybody else."""
    pools = [s for s in torch.cuda.memory_snapshot() if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0)]
    return _requested("current") + sum(int(s["total_size"]) - int(s["active_size"]) for s in pools)


def _requested(which: str) -> int:
    """Bytes asked of the allocator. What it allocates for them depends on the blocks that earlier tests left."""
    return int(torch.cuda.memory_stats().get(f"requested_bytes.all.{which}", 0))


def _paired(times: Mapping[str, list[float]], pair: tuple[str, str]) -> Paired:
    eager, compiled = (times[leg] for leg in pair)
    ratios = log_ratios(eager, compiled)
    ratio = trimmed_mean(ratios) if len(ratios) > 3 else fmean(ratios)
    return Paired(median(eager), median(compiled), ratio, half_width(ratios) if len(ratios) > 5 else 0.0)


def _both(eager: int | None, compiled: int | None) -> tuple[int, int] | None:
    return None if eager is None or compiled is None else (eager, compiled)


def _bytes(eager: int, compiled: int) -> Paired | None:
    if eager <= 0 or compiled <= 0:
        return None
    return Paired(eager, compiled, log_ratios([eager], [compiled])[0])


def device_of(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> torch.device:
    """The device of the first parameter, buffer or tensor argument; CPU when there is none."""
    if isinstance(target, torch.nn.Module):
        for tensor in (*target.parameters(), *target.buffers()):
            return tensor.device
    for value in (*args, *(kwargs or {}).values()):
        if isinstance(value, torch.Tensor):
            return value.device
    return torch.device("cpu")


def environment_of(device: torch.device) -> dict[str, Any]:
    """Device name and id, versions of torch, CUDA and Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = {"torch": torch.__version__.split("+")[0], "cuda": None, "python": python}
    found: dict[str, Any] = {"device": device.type, **versions}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found.update(device=properties.name, cuda=torch.version.cuda, uuid=f"GPU-{properties.uuid}")
    return found
