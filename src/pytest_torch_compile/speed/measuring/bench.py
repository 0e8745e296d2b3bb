"""Measure the eager and the compiled version of a target side by side in one process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from typing import Any

import torch

from ..._torch import code
from ..._torch.compiled import uncompiled
from ..._torch.trace import TraceObserver
from ..._torch.trace_log import not_captured
from ..._torch.warning_filters import calm
from ...findings import CompileUsageError
from ...legs.calls import Call
from ...legs.compiling import Compiling
from ...legs.keywords import clear_keywords, keyword_options
from ...legs.targets import DynamicDims, argument_names, mark_dynamic, modules_of
from ...observation import Observation
from ..deciding.statistics import half_width, log_ratios, trimmed_mean
from ..sample import PRECISION, SECONDS, Exact, Paired, SpeedSample
from . import kernels, memory, timing, turns
from .copies import copied
from .device import device_problems, device_state
from .python_calls import python_calls
from .stack_depth import with_spare_stack
from .workload import tensors_in, workload

SESSIONS = 3
PROFILED_SECONDS = 0.01


@dataclass
class WarmLeg:
    """One version of the target, eager or compiled, after its warm-up.

    ``run`` performs one call, and ``calls`` is the number of calls in a timed block. ``cold_start`` is the time of the
    warm-up calls, minus the time that the same number of warm calls takes, in seconds. ``memory`` is the peak memory in
    bytes.
    """

    run: timing.Run
    calls: int = 1
    cold_start: float = 0.0
    memory: int = 0


class Bench:
    """Two warmed-up versions (legs) of ``target(*args, **kwargs)``: eager and compiled.

    Each leg has a separate copy of the target and the inputs. ``train=True`` adds the backward pass from every output
    that requires gradients. If ``train`` is a callable, it is the loss function. ``optimizer`` is a function that
    creates an optimizer from the parameters; if it is set, a whole training step is measured. ``compile`` is any
    ``callable(target) -> compiled``; if ``compile`` is not set, ``torch.compile`` is called with ``mode``, ``backend``,
    ``options``, ``dynamic`` and ``fullgraph``. Before compilation, the dimensions in ``dynamic_dims`` are marked as
    dynamic, as in ``check_compile``.

    Raises:
        CompileUsageError: If the target cannot be copied, the backend or mode is unknown, or ``compile`` is combined
            with an option of ``torch.compile``.
    """

    def __init__(
        self,
        target: Any,
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        train: bool | Callable[[Any], Any] = False,
        optimizer: Callable[[Iterable[Any]], Any] | None = None,
        mode: str | None = None,
        backend: str | Callable[..., Any] | None = None,
        options: Mapping[str, Any] | None = None,
        dynamic: bool | None = None,
        fullgraph: bool = False,
        compile: Callable[[Any], Any] | None = None,
        dynamic_dims: DynamicDims | None = None,
    ) -> None:
        own = {"mode": mode, "backend": backend, "options": options, "dynamic": dynamic, "fullgraph": fullgraph or None}
        for name in (name for name, value in own.items() if compile is not None and value is not None):
            raise CompileUsageError(
                f"{name} is an option of torch.compile, but compile= replaces torch.compile: apply the option in "
                "the function that you pass as compile="
            )
        chosen = dict(options) if options is not None else None
        compiling = Compiling(backend or "inductor", mode, chosen, dynamic, fullgraph, compile)
        target, given = uncompiled(target), Call(args, dict(kwargs or {}))

        def build(wrap: Compiling | None) -> timing.Run:
            own, call = copied(target, given)
            if wrap and dynamic_dims:
                mark_dynamic(call, dynamic_dims, argument_names(target))
            return workload(own, call.args, call.kwargs, train, optimizer, wrap)

        self.what = "train step" if optimizer else "forward and backward" if train else "forward"
        self.mode = mode or "default"
        self.device = device_of(target, args, kwargs)
        self._cuda = self.device.type == "cuda"
        self.timer = timing.Timer(self.device)
        if self._cuda:
            kernels.start_profiler()
        self._before = self._state()
        self._loaded = code.loaded()
        with calm():
            with not_captured():  # so that the trace does not slow down a target that calls torch.compile itself
                eager = self._warm(partial(build, None))
            with TraceObserver() as observer:
                compiled = self._warm(partial(build, compiling))
        self.legs = {"eager": eager, "compiled": compiled}
        self.observation = observer.seen

    @calm()
    def measure(self, *, seconds: float = SECONDS, precision: float = PRECISION, raw: bool = False) -> SpeedSample:
        """Measure eager and compiled code in interleaved rounds. For the arguments, see ``measure_compile``."""
        runs = {name: leg.run for name, leg in self.legs.items()}
        calls = {name: leg.calls for name, leg in self.legs.items()}
        if self._cuda:
            # A synchronized call takes longer than a call in a block of calls, and other processes may have used the
            # device during the warm-up, so compute the number of calls per block again.
            blocks = {name: self.timer.block(run, calls[name])[0] for name, run in runs.items()}
            calls = {name: timing.calls_per_block(seconds) for name, seconds in blocks.items()}
        device: dict[str, list[float]] = {}
        sessions: dict[str, kernels.Profiled] = {}
        with timing.quiet_host():
            rounds = with_spare_stack(timing.interleave, runs, calls, self.timer, seconds=seconds, precision=precision)
            if self._cuda:
                share = PROFILED_SECONDS / timing.BLOCK_SECONDS
                profiled = {name: max(6, min(200, round(count * share))) for name, count in calls.items()}
                device, sessions = with_spare_stack(kernels.interleaved_sessions, runs, profiled, SESSIONS)
            # Python calls are counted last, because counting resets the interpreter's specializations.
            eager_calls, compiled_calls = (python_calls(run) for run in runs.values())
        wall, host = ({name: [block[i] for block in blocks] for name, blocks in rounds.items()} for i in (0, 1))
        times = {"wall": wall, "host": host, "device": device} if self._cuda else {"wall": wall}
        pairs = {quantity: _paired(legs["eager"], legs["compiled"]) for quantity, legs in times.items()}
        state = {"before": self._before, "after": self._state()}
        problems = device_problems(state["before"], state["after"])
        if not self._cuda:
            problems = (
                f"times on {self.device.type.upper()} are shown, but neither stored nor compared with a baseline",
            )
        eager, compiled = self.legs["eager"], self.legs["compiled"]
        return SpeedSample(
            wall=pairs["wall"],
            host=pairs.get("host"),
            device=pairs.get("device"),
            memory=_bytes(eager.memory, compiled.memory),
            kernels=(sessions["eager"].kernels, sessions["compiled"].kernels) if sessions else None,
            python_calls=None if eager_calls is None or compiled_calls is None else (eager_calls, compiled_calls),
            exact=_exact(self.observation, sessions.get("compiled"), compiled.memory or None, compiled_calls),
            breaks=tuple(f"{one.location.shown()}: {one.reason}" for one in self.observation.graph_breaks),
            cold_start=(eager.cold_start, compiled.cold_start),
            what=self.what,
            mode=self.mode,
            code=code.identity(self._loaded),
            rounds=len(rounds["eager"]),
            calls_per_round=(calls["eager"], calls["compiled"]),
            environment=environment_of(self.device),
            state=state,
            problems=problems,
            raw=times if raw else {},
        )

    def synchronize(self) -> None:
        """Wait until the device is idle."""
        self.timer.synchronize()

    def _warm(self, build: Callable[[], timing.Run]) -> WarmLeg:
        if self._cuda:
            memory.free_leftovers()
        before = memory.bytes_in_use() if self._cuda else 0
        leg = WarmLeg(build())
        leg.cold_start, steady = timing.warm_up(leg.run, self.timer)
        leg.calls = timing.calls_per_block(steady)
        if self._cuda:
            memory.free_leftovers()
            leg.run()
            leg.memory = memory.bytes_in_use() - before + memory.transient_memory(leg.run)
        return leg

    def _state(self) -> dict[str, Any]:
        if not self._cuda:
            return {}
        uuid = environment_of(self.device)["uuid"]
        users, state = turns.users(uuid), device_state(uuid)
        return {**state, "users": max(users, turns.users(uuid))} if state else {}


BENCH_OPTIONS = keyword_options(Bench)
# Options of torch.compile, which must not be combined with a custom compile function.
TORCH_COMPILE_OPTIONS = frozenset({"mode", "backend", "options", "dynamic", "fullgraph"})


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
    """Measure ``target(*args)`` in eager and in compiled code, in interleaved rounds.

    The measurement stops after ``seconds``. It stops earlier if the ratio of compiled to eager time is precise enough:
    half the width of the ratio's 95% confidence interval is at most ``precision``. The times exclude compilation,
    autotuning and CUDA graph recording, which are reported as the cold start. With ``raw=True``, the result also
    contains the times of every round. The other options are passed to ``Bench``.
    """
    return Bench(target, *args, **options).measure(seconds=seconds, precision=precision, raw=raw)


def _exact(seen: Observation, session: kernels.Profiled | None, memory: int | None, python_calls: int | None) -> Exact:
    """Return the counts for compiled code; counts that this torch version does not provide are None, not zero."""
    guards = [graph.guards for graph in seen.graphs]
    exact = Exact(memory=memory, python_calls=python_calls)
    if session is not None:
        exact = replace(
            exact,
            kernels=session.kernels,
            cuda_graphs=session.per_call(session.graph_launches),
            collectives=session.per_call(session.collectives),
            syncs=session.per_call(session.waits),
        )
    if seen.not_observable:
        return exact
    return replace(
        exact,
        graphs=len(seen.graphs),
        graph_breaks=len(seen.graph_breaks),
        recompiles=len(seen.recompiles),
        cudagraph_skips=len(seen.cudagraph_skips),
        guards=None if None in guards else sum(guard or 0 for guard in guards),
    )


def _paired(eager: list[float], compiled: list[float]) -> Paired:
    ratios = log_ratios(eager, compiled)
    ratio = trimmed_mean(ratios) if len(ratios) > 3 else fmean(ratios)
    return Paired(median(eager), median(compiled), ratio, half_width(ratios) if len(ratios) > 5 else 0.0)


def _bytes(eager: int, compiled: int) -> Paired | None:
    if eager <= 0 or compiled <= 0:
        return None
    return Paired(eager, compiled, log_ratios([eager], [compiled])[0])


def device_of(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> torch.device:
    """Return the device of the first parameter, buffer or tensor argument, or the CPU if there is no such tensor."""
    own = (t for module in modules_of(target).values() for t in (*module.parameters(), *module.buffers()))
    tensor = next(own, None)
    if tensor is None:
        tensor = next(tensors_in((args, kwargs)), None)
    return torch.device("cpu") if tensor is None else tensor.device


def environment_of(device: torch.device) -> dict[str, Any]:
    """Return the device's name and id, and the versions of torch, CUDA and Python."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = {"torch": torch.__version__.split("+")[0], "cuda": None, "python": python}
    environment: dict[str, Any] = {"device": device.type, **versions}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        environment.update(device=properties.name, cuda=torch.version.cuda, uuid=f"GPU-{properties.uuid}")
    return environment
