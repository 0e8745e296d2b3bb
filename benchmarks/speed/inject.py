"""Real slowdowns of known size in real models, interleaved with the unchanged legs, in many fresh processes.

Kernel side: an elementwise kernel over a buffer whose size is calibrated to the wanted share of the model's device
time runs after each call. Host side: Python code busy for the wanted share of the time per call runs before it.

    PYTHONPATH=src python3 benchmarks/speed/inject.py --out inject.json --processes 10
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import runs

LEVELS = (1, 2, 3, 5, 10, 20)
LAUNCH_BOUND = 0.9
_sizes: list[tuple[float, int]] = []


def measure(options: argparse.Namespace, name: str) -> dict[str, Any]:
    """One case: eager, compiled, and compiled with every slowdown, in the same rounds."""
    import torch

    from pytest_torch_compile.speed import kernels, measure, timing
    from pytest_torch_compile.speed.workload import workload
    from suites.speed.cases import CASES

    device = torch.device(options.device)
    module, inputs, settings = CASES[name].build(device)
    mode = settings.pop("mode") if options.backend == "inductor" else settings.pop("mode") and None
    eager = workload(module, (), inputs, **settings)
    compiled = workload(
        module, (), inputs, **settings, compile=lambda m: torch.compile(m, backend=options.backend, mode=mode)
    )
    timer = timing.timer_for(device)
    cold, steady = timing.warm_up(compiled, timer)
    if options.only_compile:
        return {}
    wall, host = timer.block(compiled, timing.calls_per_block(steady))
    slowed: dict[str, Callable[[], object]] = {}
    if device.type == "cuda":
        kernels.start_profiler()
        used = sorted(kernels.device_times(compiled, 8)[0])[4]
        slowed = {f"kernel-{p}": with_kernel(compiled, used * p / 100, device) for p in LEVELS}
    launch_bound = host > LAUNCH_BOUND * wall
    if launch_bound:
        slowed |= {f"host-{p}": with_host(compiled, wall * p / 100) for p in LEVELS}
    legs = {"eager": eager, "compiled": compiled, **slowed}
    bench = measure.Bench({leg: (lambda run=run: run) for leg, run in legs.items()}, device)
    samples = bench.measure(seconds=options.seconds, precision=0.0, raw=True)
    return {"launch_bound": launch_bound, "legs": {leg: compact(sample, leg) for leg, sample in samples.items()}}


def compact(sample: Any, leg: str) -> dict[str, Any]:
    """The pair of figures of each quantity, and the rounds of the slowed leg."""
    found = {}
    for quantity in ("wall", "host", "device"):
        pair = getattr(sample, quantity)
        if pair:
            found[quantity] = [round(pair.eager * 1e6, 2), round(pair.compiled * 1e6, 2), round(pair.log_ratio, 6),
                               round(pair.half_width, 6)]
    if sample.problems:
        found["problems"] = sample.problems
    kept = ("eager", "compiled") if leg == "compiled" else ("compiled",)
    found["rounds"] = {q: {n: runs.micros(v[n]) for n in kept} for q, v in sample.raw.items() if v["eager"]}
    return found


def kernel_sizes(device: Any) -> list[tuple[float, int]]:
    """Seconds of device time of the elementwise kernel over buffers of rising size."""
    import torch

    from pytest_torch_compile.speed import kernels

    table = []
    for step in range(0, 57):
        size = int(1024 * 2 ** (step / 3))
        buffer = torch.zeros(size, device=device)
        table.append((sorted(kernels.device_times(lambda b=buffer: b.add_(1.0), 7)[0])[3], size))
    return table


def with_kernel(run: Callable[[], object], seconds: float, device: Any) -> Callable[[], object]:
    """``run`` and then a kernel that takes about ``seconds``."""
    import torch

    if not _sizes:
        _sizes.extend(kernel_sizes(device))
    buffer = torch.zeros(min(_sizes, key=lambda row: abs(row[0] - seconds))[1], device=device)

    def slowed() -> object:
        result = run()
        buffer.add_(1.0)
        return result

    return slowed


def with_host(run: Callable[[], object], seconds: float) -> Callable[[], object]:
    """Python code that is busy for ``seconds``, and then ``run``."""

    def slowed() -> object:
        end = perf_counter() + seconds
        while perf_counter() < end:
            pass
        return run()

    return slowed


def main() -> None:
    """Drive the runs, or be one of them."""
    options = runs.parser(__doc__ or "").parse_args()
    if options.tiny:
        options.cases, options.seconds, options.backend = "bert-forward-default", 0.3, "eager"
    if options.turn >= 0:
        runs.serve(options, measure)
    else:
        runs.drive(__file__, options, sys.argv[1:])


if __name__ == "__main__":
    main()
