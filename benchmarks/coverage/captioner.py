"""Measure the cold start, steps per second and peak memory of the published captioning model, trained with one
compilation practice in a fresh process.

PYTHONPATH=src:. python3 benchmarks/coverage/captioner.py full --cache empty-folder --save artifacts.bin --out full.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

PRACTICES = ("eager", "full", "regional", "parts", "optimizer")
WARM_STEPS, STEPS = 3, 20


def main() -> None:
    """Measure one practice, and write the measurements to a file."""
    options = _parser().parse_args()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(options.cache)
    import torch

    if options.load:
        torch.compiler.load_cache_artifacts(options.load.read_bytes())
    figures = measure(options)
    if options.save:
        artifacts, _ = torch.compiler.save_cache_artifacts() or (b"", None)
        options.save.write_bytes(artifacts)
        figures["artifact_bytes"] = len(artifacts)
    options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements of one practice. The cold start is the time of the first step minus the time of a steady
    step.
    """
    import torch

    step, batch = _tiny() if options.tiny else _published(options.layers)
    step = compiled(step, options.practice, {"backend": "aot_eager"} if options.tiny else {})
    _reset_peak()
    first, *times = [_timed(partial(step, **batch)) for _ in range(1 + WARM_STEPS + STEPS)]
    steady = statistics.median(times[WARM_STEPS:])
    return {
        "practice": options.practice,
        "loaded": options.load is not None,
        "layers": options.layers,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "cold_start_seconds": round(first - steady, 2),
        "steps_per_second": round(1 / steady, 3),
        "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
    }


def compiled(step: Any, practice: str, options: dict[str, Any]) -> Any:
    """Return the training step, compiled as the practice requires."""
    import torch

    from suites.captioning.apart import compile_parts
    from suites.regional.blocks import compile_blocks
    from suites.training import steps

    whole = partial(torch.compile, **options)
    ways = {
        "eager": lambda step: step,
        "full": lambda step: steps.module(step, whole),
        "regional": lambda step: steps.module(step, partial(compile_blocks, **options)),
        "parts": lambda step: steps.module(step, partial(compile_parts, **options)),
        "optimizer": lambda step: steps.optimizer(step, whole),
    }
    return ways[practice](step)


def _published(layers: int) -> Any:
    from suites.captioning.models import on_device, published_captions
    from suites.training import steps

    return steps.published_step(layers), on_device(published_captions([256] * 64))


def _tiny() -> Any:
    import torch

    from suites.captioning.models import captions, tiny
    from suites.training.steps import TrainStep

    model = tiny(layers=2)
    autocast = partial(torch.autocast, "cpu", torch.bfloat16)
    return TrainStep(model, torch.optim.Adam(model.parameters()), autocast), captions([16, 12])


def _timed(run: Any) -> float:
    import torch

    start = time.perf_counter()
    run()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _reset_peak() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("practice", choices=PRACTICES)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--cache", type=Path, required=True, help="the compile cache: an empty folder for a cold start")
    parser.add_argument("--save", type=Path, help="save the compile artifacts in this file")
    parser.add_argument("--load", type=Path, help="load compile artifacts from this file first")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="a tiny model on CPU, to try the script")
    return parser


if __name__ == "__main__":
    main()
