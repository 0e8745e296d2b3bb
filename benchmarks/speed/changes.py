"""Measure how changes that a pull request or a new torch version may cause affect the speed of real compiled models.

Each process measures one case without changes and with each change that applies to it, always compiled from an empty
cache. So the effect of a change is known from a single process, independently of the gate. `decide.py` then applies the
gate to the runs.

    PYTHONPATH=src python3 benchmarks/speed/changes.py --out changes.json --seconds 1.5 --budget-seconds 500
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
CASES = (
    "resnet18-forward-default",
    "resnet18-step-default",
    "mobilenet-forward-default",
    "vit-forward-default",
    "vit-forward-reduce-overhead",
    "bert-forward-default",
    "bert-step-default",
    "gpt2-forward-default",
    "llama-forward-default",
    "llama-forward-reduce-overhead",
    "captioner-forward-default",
    "captioner-step-default",
)
# Measuring every change for every case would take too long, so each case has this many changes: the change at the
# case's index, and every second change after that.
CHANGES_OF_A_CASE = 7
Compile = Callable[[Any], Any]


@torch.library.custom_op("changes::opaque", mutates_args=())
def opaque_op(x: torch.Tensor) -> torch.Tensor:
    """Copy a tensor, in an op whose content Inductor does not know."""
    return x.clone()


opaque_op.register_fake(lambda x: torch.empty_like(x))
opaque_op.register_autograd(lambda context, gradient: gradient)


def middle(target: Any) -> Any:
    """Return a layer in the middle of the model."""
    layers = [
        m for m in target.modules() if isinstance(m, (torch.nn.Linear, torch.nn.Conv2d)) or "Conv1D" in str(type(m))
    ]
    return layers[len(layers) // 2]


def hooked(hook: Callable[..., Any], **options: Any) -> Callable[..., Compile]:
    """Compile with a forward hook on the layer in the middle."""

    def change(mode: str | None) -> Compile:
        def compile(target: Any) -> Any:
            middle(target).register_forward_hook(hook)
            return torch.compile(target, mode=mode, **options)

        return compile

    return change


def configured(**options: Any) -> Callable[..., Compile]:
    """Compile with additional Inductor settings."""

    def change(mode: str | None) -> Compile:
        of_mode = torch._inductor.list_mode_options(mode) if mode else {}
        return lambda target: torch.compile(target, options={**of_mode, **options})

    return change


def wrapped(around: Callable[..., Any]) -> Callable[..., Compile]:
    """Compile as usual, and call the compiled model through ``around``."""

    def change(mode: str | None) -> Compile:
        return lambda target: partial(around, torch.compile(target, mode=mode))

    return change


def breaks(module: Any, args: Any, output: Any) -> Any:
    """Insert a graph break."""
    torch._dynamo.graph_break()
    return output


def opaque(module: Any, args: Any, output: Any) -> Any:
    """Insert an op that is opaque to Inductor."""
    return torch.ops.changes.opaque(output)


def keeps(module: Any, args: Any, output: Any) -> Any:
    """Keep an activation alive."""
    module.kept = output.detach().clone()
    return output


def reads_much(module: Any, args: Any, output: Any) -> Any:
    """Read three hundred Python numbers, each of which adds a guard."""
    total = 0
    for number in SETTINGS.values():
        total += number
    return output + total * 0


SETTINGS = {f"setting {number}": number for number in range(300)}


def synchronizes(compiled: Any, *args: Any, **kwargs: Any) -> Any:
    """Wait for the device after each call."""
    output = compiled(*args, **kwargs)
    torch.cuda.synchronize()
    return output


def copies(compiled: Any, *args: Any, **kwargs: Any) -> Any:
    """Copy all inputs."""
    return compiled(*args, **{name: value.clone() for name, value in kwargs.items()})


def busy(compiled: Any, *args: Any, **kwargs: Any) -> Any:
    """Run Python code around the call."""
    for _ in range(1500):
        len(kwargs)
    return compiled(*args, **kwargs)


def in_float32(target: Any) -> None:
    """Make one layer compute in float32."""
    layer = middle(target).float()
    layer.register_forward_pre_hook(to_float32)
    layer.register_forward_hook(to_bfloat16)


def to_float32(module: Any, args: Any) -> Any:
    """Convert the inputs of a layer."""
    return tuple(arg.float() for arg in args)


def to_bfloat16(module: Any, args: Any, output: Any) -> Any:
    """Convert the output of a layer."""
    return output.to(torch.bfloat16)


def upcast(mode: str | None) -> Compile:
    """Run one layer in float32."""

    def compile(target: Any) -> Any:
        in_float32(target)
        return torch.compile(target, mode=mode)

    return compile


def dynamic(mode: str | None) -> Compile:
    """Make every size dynamic."""
    return lambda target: torch.compile(target, mode=mode, dynamic=True)


def no_cuda_graphs(mode: str | None) -> Compile:
    """Disable CUDA graphs."""
    return torch.compile


CHANGES: dict[str, Callable[..., Compile]] = {
    "graph break": hooked(breaks),
    "opaque op": hooked(opaque),
    "no fusion": configured(max_fusion_size=1),
    "kept activation": hooked(keeps),
    "300 guards": hooked(reads_much),
    "synchronize": wrapped(synchronizes),
    "copied inputs": wrapped(copies),
    "1,500 Python calls": wrapped(busy),
    "layer in float32": upcast,
    "dynamic shapes": dynamic,
    "no pattern matcher": configured(pattern_matcher=False),
    "no layout optimization": configured(layout_optimization=False),
    "no split reductions": configured(split_reductions=False),
    "no pointwise tuning": configured(**{"triton.autotune_pointwise": False, "triton.max_tiles": 1}),
    "no CUDA graphs": no_cuda_graphs,
}


def changes_of(case: str) -> list[str]:
    """Return the names of the changes that are measured for a case."""
    names = [name for name in CHANGES if name != "no CUDA graphs"]
    first = CASES.index(case)
    chosen = [names[(first + 2 * step + step // 7) % len(names)] for step in range(CHANGES_OF_A_CASE)]
    return [*dict.fromkeys(chosen), *(["no CUDA graphs"] if "reduce-overhead" in case else [])]


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure one case in this process, first unchanged and then with each change, starting from an empty cache each
    time."""
    from pytest_torch_compile._torch.reset import reset_dynamo
    from pytest_torch_compile.cache.folder import empty_cache
    from pytest_torch_compile.speed.measuring.bench import Bench
    from suites.speed.cases import CASES as ALL

    names = changes_of(options.case)
    random.Random(options.seed).shuffle(names)
    for name in ["", *names]:
        start = time.monotonic()
        module, inputs, settings = ALL[options.case].build(torch.device(options.device))
        mode = settings.pop("mode")
        if options.backend != "inductor":
            settings["backend"] = options.backend
        chosen = {"compile": CHANGES[name](mode)} if name else {"mode": mode}
        if options.backend != "inductor" and name:
            settings.pop("backend")
        reset_dynamo()
        row: dict[str, Any] = {"case": options.case, "change": name, "process": options.seed}
        try:
            with empty_cache():
                bench = Bench(module, kwargs=inputs, **settings, **chosen)
                sample = bench.measure(seconds=options.seconds)
                del bench
        except Exception as error:
            yield {**row, "error": f"{type(error).__name__}: {error}"[:300]}
            continue
        times = {name: getattr(sample, name) for name in ("wall", "host", "device")}
        yield {
            **row,
            "times": {
                n: [float(f"{p.eager:.5g}"), float(f"{p.compiled:.5g}"), round(p.log_ratio, 6)]
                for n, p in times.items()
                if p
            },
            "exact": sample.exact.counted(),
            "code": sample.code,
            "gpu": sample.environment.get("uuid", "")[:12],
            "problems": list(sample.problems),
            "spent": round(time.monotonic() - start, 1),
        }


def drive(options: argparse.Namespace) -> None:
    """Run one process after another for each case until the time is up, on all GPUs at the same time."""
    import threading

    start, lock = time.monotonic(), threading.Lock()
    rows = json.loads(options.out.read_text())["rows"] if options.out.exists() else []
    jobs = [(case, options.first + number) for number in range(options.processes) for case in options.cases]
    longest = [40.0]

    def work(gpu: int) -> None:
        while jobs and time.monotonic() - start + longest[0] < options.budget_seconds:
            with lock:
                case, seed = jobs.pop(0)
            began = time.monotonic()
            command = [sys.executable, __file__, "--case", case, "--seed", str(seed), "--seconds", str(options.seconds)]
            command += ["--device", options.device, "--backend", options.backend]
            environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
            if options.device == "cuda":
                environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            new = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
            with lock:
                rows.extend(new)
                longest[0] = max(longest[0], 1.05 * (time.monotonic() - began))
                text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]"
                options.out.write_text('{"schema_version": 1, "rows": ' + text + "}\n")
            failed = [f"{row['change']}: {row['error']}" for row in new if "error" in row]
            print(f"{time.monotonic() - start:.0f} s, GPU {gpu}: {case} {seed}: {len(new)} rows", *failed, flush=True)
            if done.returncode:
                print(done.stderr[-1500:], flush=True)

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in range(options.gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Run the processes, or act as one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "changes.json")
    parser.add_argument("--processes", type=int, default=3, help="fresh processes for each case")
    parser.add_argument("--first", type=int, default=0, help="number of the first process")
    parser.add_argument("--cases", nargs="*", default=CASES)
    parser.add_argument("--seconds", type=float, default=1.5, help="maximum duration of the rounds in seconds")
    parser.add_argument("--budget-seconds", type=float, default=500.0)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is None:
        drive(options)
        return
    for row in measure(options):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
