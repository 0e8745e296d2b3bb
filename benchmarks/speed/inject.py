"""Measure real slowdowns of known size in real models, in many fresh processes.

For a kernel slowdown, an elementwise kernel runs after each call. Its size is adjusted until it takes the desired share
of the model's device time. For a host slowdown, Python code runs before each call for the desired share of the time per
call. Host slowdowns are measured only for forward passes that are limited by kernel launches.

    PYTHONPATH=src python3 benchmarks/speed/inject.py --out inject.json --processes 7

``--brief`` stores only what the gate reads (the eager time, the compiled time and the log of their ratio) instead of
every round. ``--lead-in`` starts each block with untimed calls, to find out whether the gate should do so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import runs

# A case is limited by launches if the host takes more than the first share of the time, and the kernels less than the
# second share.
HOST_SHARE, KERNEL_SHARE = 0.9, 0.5
KERNEL_WALL_ROUNDS = 12
_sizes: list[tuple[float, int]] = []


def measure(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """Measure one case without changes, with every kernel slowdown, and with every host slowdown."""
    import torch

    from pytest_torch_compile.speed.measuring.bench import Bench
    from suites.speed.cases import CASES

    module, inputs, settings = CASES[name].build(torch.device(options.device))
    if options.backend != "inductor":
        settings |= {"mode": None, "backend": options.backend}
    bench = Bench(module, kwargs=inputs, **settings)
    if options.only_compile:
        return {}
    if options.lead_in:
        bench.timer = LeadIn(bench.timer)
    plain = bench.measure(seconds=options.seconds, precision=options.precision, raw=True)
    found: dict[str, Any] = {"plain": runs.compact(plain), "code": plain.code}
    found["launch_bound"] = is_launch_bound(plain)
    if plain.device:
        found["kernel"] = kernel_legs(bench, plain.device.compiled, percents(options.kernel_levels))
    if found["launch_bound"] and CASES[name].work == "forward":
        found["host"] = host_legs(bench, plain.wall.compiled, options)
    return brief(found) if options.brief else found


def is_launch_bound(sample: Any) -> bool:
    """Return whether the device nearly always waits for the host in compiled code. Always true on a CPU, where host and
    device times cannot be distinguished.
    """
    if sample.host is None or sample.device is None:
        return True
    host, kernels = (leg.compiled / sample.wall.compiled for leg in (sample.host, sample.device))
    return host > HOST_SHARE and kernels < KERNEL_SHARE


class LeadIn:
    """A timer whose blocks start with untimed calls, because the other version (eager or compiled) has just used the
    caches.
    """

    def __init__(self, timer: Any) -> None:
        self._timer = timer
        self.cuda = timer.cuda
        self.synchronize = timer.synchronize

    def block(self, run: Callable[[], object], calls: int) -> tuple[float, float]:
        """Return the wall and host seconds per call."""
        for _ in range(max(1, calls // 2)):
            run()
        return self._timer.block(run, calls)


def percents(levels: str) -> list[int]:
    """Parse the sizes of the slowdowns, in percent."""
    return [int(level) for level in levels.split(",")]


def brief(found: dict[str, Any]) -> dict[str, Any]:
    """Return the measurements of a case, with the values that the gate reads instead of every round."""
    plain = found["plain"]
    slowed = {
        # Quantities that were not measured again are taken from the unchanged case.
        side: {level: figures({**plain, **found[side][level]}) for level in found[side]}
        for side in ("kernel", "host")
        if side in found
    }
    kept = {name: found[name] for name in ("code", "launch_bound")}
    return {**kept, "plain": figures(plain), "problems": plain["problems"], **slowed}


def figures(case: dict[str, Any]) -> dict[str, list[float]]:
    """Return a case's counts, and the eager time, compiled time and log ratio of each quantity."""
    from decide import measured

    run = measured(case).run
    kept: dict[str, list[float]] = {
        name: list(time) for name in ("wall", "host", "device") if (time := getattr(run, name))
    }
    counted = {"kernels": "kernels", "python-calls": "python_calls"}
    return kept | {name: case[given] for name, given in counted.items() if case.get(given)}


def kernel_legs(bench: Any, used: float, levels: list[int]) -> dict[str, Any]:
    """Measure the device times of eager and of each slowed version of the compiled code, and the wall times of the
    slowed versions.
    """
    from pytest_torch_compile.speed.measuring import interleaved, kernels, timing
    from pytest_torch_compile.speed.measuring.stack_depth import with_spare_stack

    eager, compiled = bench.legs["eager"], bench.legs["compiled"]
    legs = {f"{p}": with_kernel(compiled.run, used * p / 100, bench.device) for p in levels}
    share = interleaved.PROFILED_SECONDS / timing.BLOCK_SECONDS
    calls = dict.fromkeys(legs, compiled.calls)
    profiled = {leg: max(6, min(200, round(c * share))) for leg, c in {"eager": eager.calls, **calls}.items()}
    timer = timing.Timer(bench.device)

    def wall_times() -> dict[str, list[float]]:
        return {leg: [timer.block(legs[leg], calls[leg])[0] for _ in range(KERNEL_WALL_ROUNDS)] for leg in legs}

    with timing.quiet_host():
        both = {"eager": eager.run, **legs}
        device, last = with_spare_stack(kernels.interleaved_sessions, both, profiled, interleaved.SESSIONS)
        wall = with_spare_stack(wall_times)
    return {
        leg: {"device": {"eager": runs.micros(device["eager"]), "compiled": runs.micros(device[leg])},
              "kernels": [last["eager"].kernels, last[leg].kernels], "slowed_wall": runs.micros(wall[leg])}
        for leg in legs
    }  # fmt: skip


def host_legs(bench: Any, wall: float, options: argparse.Namespace) -> dict[str, Any]:
    """Measure eager together with each slowed version of the compiled code, in rounds as the gate does."""
    from pytest_torch_compile.speed.measuring import timing
    from pytest_torch_compile.speed.measuring.python_calls import python_calls
    from pytest_torch_compile.speed.measuring.stack_depth import with_spare_stack

    eager, compiled = bench.legs["eager"], bench.legs["compiled"]
    calls = {"eager": eager.calls, "compiled": compiled.calls}
    found = {}
    for percent in percents(options.host_levels):
        legs = {"eager": eager.run, "compiled": with_host(compiled.run, wall * percent / 100)}
        with timing.quiet_host():
            rounds = with_spare_stack(
                timing.interleave, legs, calls, bench.timer, seconds=options.seconds, precision=options.precision
            )
        found[f"{percent}"] = {
            quantity: {leg: runs.micros([times[index] for times in rounds[leg]]) for leg in legs}
            for index, quantity in enumerate(("wall", "host"))
        }
        found[f"{percent}"]["python_calls"] = [python_calls(run) for run in legs.values()]
    return found


def kernel_sizes(device: Any) -> list[tuple[float, int]]:
    """Return pairs of the elementwise kernel's device seconds and the buffer size, for increasing sizes."""
    import torch

    table = []
    for step in range(0, 57, 2):
        size = int(1024 * 2 ** (step / 3))
        buffer = torch.zeros(size, device=device)
        table.append((_last_kernel(lambda b=buffer: b.add_(1.0)), size))
    return table


def with_kernel(run: Callable[[], object], seconds: float, device: Any) -> Callable[[], object]:
    """Return a function that calls ``run`` and then a kernel that takes about ``seconds``."""
    import torch

    if not _sizes:
        _sizes.extend(kernel_sizes(device))
    size = min(_sizes, key=lambda row: abs(row[0] - seconds))[1]

    def slowed_by(size: int) -> Callable[[], object]:
        buffer = torch.zeros(size, device=device)

        def slowed() -> object:
            result = run()
            buffer.add_(1.0)
            return result

        return slowed

    # After a model, the kernel finds cold caches and takes longer than alone, so its size is adjusted while the model
    # runs.
    for _ in range(3):
        size = max(256, min(1 << 28, int(size * min(4.0, max(0.25, seconds / _last_kernel(slowed_by(size)))))))
    return slowed_by(size)


def _last_kernel(run: Callable[[], object], calls: int = 7) -> float:
    """Return the duration in seconds of the last kernel in a call, measured together with the other kernels. If the
    calls do not all run the same kernels, return the duration for the final call.
    """
    from statistics import median

    from pytest_torch_compile.speed.measuring import kernels

    took = kernels.profiled(run, calls).took
    per_call, rest = divmod(len(took), calls)
    return (took[-1] if rest else median(took[per_call - 1 :: per_call])) / 1e6


def with_host(run: Callable[[], object], seconds: float) -> Callable[[], object]:
    """Return a function that runs Python code for ``seconds`` and then calls ``run``."""

    def slowed() -> object:
        end = perf_counter() + seconds
        while perf_counter() < end:
            pass
        return run()

    return slowed


if __name__ == "__main__":
    runs.main(__file__, __doc__ or "", measure, tiny="mobilenet-forward-default")
