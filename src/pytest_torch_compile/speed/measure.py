"""Measure a target eager and compiled, side by side in one process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import kernels, timing
from .device import device_problems, device_state, processes_of_holders
from .sample import Paired, SpeedSample
from .statistics import fmean, half_width, log_ratios, median, trimmed_mean
from .workload import workload

Compile = Callable[[Any], Any]
PROFILED_CALLS_SECONDS = 0.01


@dataclass
class Leg:
    """One way to run the target: the call itself, and what setting it up cost."""

    run: timing.Run
    calls: int = 1
    cold_start: float = 0.0
    memory: int = 0


def measure_compile(
    target: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    train: bool | Callable[[Any], Any] = False,
    optimizer: Callable[[Iterable[Any]], Any] | None = None,
    mode: str | None = None,
    backend: str = "inductor",
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    compile: Compile | None = None,
    seconds: float = 2.0,
    precision: float = 0.002,
    raw: bool = False,
) -> SpeedSample:
    """Measure ``target(*args)`` eager and compiled, in interleaved rounds.

    ``train=True`` adds the backward through every floating output, a callable ``train`` computes the loss, and
    ``optimizer`` (``params -> Optimizer``) makes it a whole train step. Rounds stop when the 95 % interval of the
    ratio is within ``precision``, or after ``seconds``. Compiling, autotuning and CUDA graph recording are excluded,
    and reported as cold start. ``raw=True`` keeps every round.

    Args:
        compile: any ``callable(target) -> compiled``; the default is ``torch.compile`` with the options given here.
    """
    settings = {"mode": mode, "backend": backend, "options": options, "dynamic": dynamic, "fullgraph": fullgraph}
    compiler = compile or (lambda t: torch.compile(t, **settings))
    legs = {
        "eager": lambda: workload(copy.deepcopy(target), args, kwargs, train, optimizer),
        "compiled": lambda: workload(copy.deepcopy(target), args, kwargs, train, optimizer, compiler),
    }
    device = device_of(target, args, kwargs)
    sample = measure_legs(legs, device, seconds=seconds, precision=precision, raw=raw)["compiled"]
    what = "train step" if optimizer else "forward and backward" if train else "forward"
    return replace(sample, what=what, mode=mode or "default")


def measure_legs(
    builders: Mapping[str, Callable[[], timing.Run]],
    device: torch.device,
    *,
    seconds: float,
    precision: float,
    raw: bool = False,
    sessions: int = 2,
) -> dict[str, SpeedSample]:
    """Build, warm and measure several legs together; a sample of each but the first, against the first."""
    timer = timing.timer_for(device)
    cuda = device.type == "cuda"
    if cuda:
        kernels.start_profiler()
    before = _state(device)
    legs = {name: _built(build, timer, cuda) for name, build in builders.items()}
    with timing.quiet_host():
        runs = {name: leg.run for name, leg in legs.items()}
        calls = {name: leg.calls for name, leg in legs.items()}
        rounds = timing.interleave(runs, calls, timer, seconds=seconds, precision=precision)
        profiled = {n: max(6, min(200, round(leg.calls * PROFILED_CALLS_SECONDS / timing.BLOCK_SECONDS))) for n, leg in legs.items()}
        device_seconds, counts = kernels.interleaved_device_times(runs, profiled, sessions) if cuda else ({}, {})
    state = {"before": before, "after": _state(device)}
    reference, *others = legs
    shared = {
        "environment": environment_of(device),
        "state": state,
        "problems": _problems(device, state),
        "rounds": len(rounds[reference]),
    }
    return {
        name: SpeedSample(
            wall=_paired(*([t[0] for t in rounds[n]] for n in (reference, name))),
            host=_paired(*([t[1] for t in rounds[n]] for n in (reference, name))) if cuda else None,
            device=_paired(device_seconds[reference], device_seconds[name]) if cuda else None,
            memory=_plain(legs[reference].memory, legs[name].memory) if cuda else None,
            kernels=(counts[reference], counts[name]) if cuda else None,
            cold_start=(legs[reference].cold_start, legs[name].cold_start),
            calls_per_round=(legs[reference].calls, legs[name].calls),
            raw=_raw(rounds, device_seconds, reference, name) if raw else {},
            **shared,
        )
        for name in others
    }


def _built(build: Callable[[], timing.Run], timer: timing.Timer, cuda: bool) -> Leg:
    held = torch.cuda.memory_allocated() if cuda else 0
    leg = Leg(build())
    leg.cold_start, steady = timing.warm_up(leg.run, timer)
    leg.calls = timing.calls_per_block(steady)
    if cuda:
        kept = torch.cuda.memory_allocated() - held
        leg.memory = kept + _transient_memory(leg.run)
        # A blocking call hides the host behind the device; a block of calls shows what the pair really needs.
        leg.calls = timing.calls_per_block(timer.block(leg.run, leg.calls)[0])
    return leg


def _transient_memory(run: timing.Run) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    held = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - held)


def _paired(eager: list[float], compiled: list[float]) -> Paired:
    ratios = log_ratios(eager, compiled)
    ratio = trimmed_mean(ratios) if len(ratios) > 3 else fmean(ratios)
    return Paired(median(eager), median(compiled), ratio, half_width(ratios) if len(ratios) > 5 else 0.0)


def _plain(eager: int, compiled: int) -> Paired | None:
    if eager <= 0 or compiled <= 0:
        return None
    return Paired(eager, compiled, log_ratios([eager], [compiled])[0])


def _raw(rounds: Mapping[str, Any], device: Mapping[str, list[float]], reference: str, name: str) -> dict[str, Any]:
    pairs = {"eager": reference, "compiled": name}
    return {
        "wall": {leg: [t[0] for t in rounds[source]] for leg, source in pairs.items()},
        "host": {leg: [t[1] for t in rounds[source]] for leg, source in pairs.items()},
        "device": {leg: device.get(source, []) for leg, source in pairs.items()},
    }


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
    """Device name and id, torch and CUDA versions."""
    found: dict[str, Any] = {"device": "cpu", "torch": torch.__version__.split("+")[0], "cuda": None}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found.update(device=properties.name, cuda=torch.version.cuda, uuid=f"GPU-{properties.uuid}")
    return found


def _state(device: torch.device) -> dict[str, Any]:
    return device_state(environment_of(device)["uuid"]) if device.type == "cuda" else {}


def _problems(device: torch.device, state: Mapping[str, Any]) -> tuple[str, ...]:
    if device.type != "cuda":
        return (f"{device.type.upper()} figures are recorded, not gated",)
    return device_problems(state["before"], state["after"], processes_of_holders())
