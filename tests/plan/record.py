"""Record on a CUDA card what plans are held against, from the repository's root.

    python -m tests.plan.record FOLDER [--jobs N] [CASE | PREFIX/ ...]

Without names, every case is recorded, and the kernel that the card chooses for a grid of attention inputs. With names,
only the named cases and the cases whose names begin with a prefix are recorded, and added to the record of the same
card and torch in the folder.

For each case, the record has the code that Inductor generates, whole (for reading) and as hashes (for the tests), and
what a later call measures. Choices that a plan fixes are fixed here too, so ``max-autotune`` is recorded without
autotuning. cuBLAS takes memory for its work in each process, which a plan does not know:
``CUBLAS_WORKSPACE_CONFIG=:0:0 CUBLASLT_WORKSPACE_SIZE=0`` in the environment keeps it out of the peak.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import itertools
import json
import multiprocessing
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from pytest_torch_compile._torch.cudagraphs import CudagraphCounts, watching
from pytest_torch_compile._torch.planning.attention import CUDNN, EFFICIENT, FLASH, MATH
from pytest_torch_compile._torch.planning.choices import fix_choices, fixed_options
from tests.plan.code import hashes
from tests.plan.every_case import built, chosen

# What torch returns for each kernel, and the letter of a kernel in the record.
KERNELS = {0: MATH, 1: FLASH, 2: EFFICIENT, 3: CUDNN}
LETTERS = {MATH: "m", FLASH: "f", EFFICIENT: "e", CUDNN: "c"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="processes at a time")
    given = parser.parse_intermixed_args()
    names = chosen(given.names)
    given.folder.mkdir(parents=True, exist_ok=True)
    release = ".".join(torch.__version__.split(".")[:2])
    head: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": release}
    head["packages"] = {package: version(package) for package in ("torchvision", "transformers")}
    file = given.folder / f"{head['device'].replace(' ', '-')}_torch-{release}.json"
    sources_file = file.with_suffix(".sources.json.gz")
    record, sources = {**head, "cases": {}, "measured": {}}, {}
    if given.names and file.exists():
        record = json.loads(file.read_text(encoding="utf-8"))
        if any(record[key] != value for key, value in head.items()):
            raise SystemExit(f"{file} was recorded with {record['packages']}: install them, or use another folder")
        if sources_file.exists():
            sources = json.loads(gzip.decompress(sources_file.read_bytes()))
    try:
        for name, graphs, figures in recorded(names, given.jobs):
            sources[name], record["measured"][name] = graphs, figures
            record["cases"][name] = [hashes(source) for source in graphs]
    finally:
        file.write_text(json.dumps(record, indent=1))
        sources_file.write_bytes(gzip.compress(json.dumps(sources).encode()))
    if not given.names:
        lines = textwrap.wrap("".join(attention()), 100)
        file.with_suffix(".attention.json").write_text(json.dumps({**head, "chosen": lines}, indent=1))


def recorded(names: list[str], jobs: int) -> Iterator[tuple[str, list[str], dict[str, int]]]:
    """The name, code and figures of each case, recorded in several processes. A case that raises is left out."""
    start = time.monotonic()
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(generated, name): name for name in names}
        for done in as_completed(running):
            name, error = running[done], done.exception()
            passed = f"{time.monotonic() - start:.0f} s, {name}"
            if error is not None:
                print(f"{passed}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                continue
            graphs, figures = done.result()
            print(f"{passed}: {len(graphs)} graphs, {figures}", flush=True)
            yield name, graphs, figures


def generated(name: str) -> tuple[list[str], dict[str, int]]:
    """The code of each graph of a case, and what a later call measures."""
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    fix_choices()
    config.compile_threads = 4
    torch._dynamo.reset()
    gc.collect()
    torch.cuda.init()
    before = torch.cuda.memory_stats()
    sources: list[str] = []
    GraphLowering.save_output_code = staticmethod(sources.append)
    case = built(name)
    layout = {"memory_format": torch.preserve_format}
    calls = [{key: value.to("cuda", **layout) for key, value in arguments.items()} for arguments in case.calls]
    model = case.model.to("cuda")
    compiled = torch.compile(model, dynamic=case.dynamic, options=fixed_options(case.mode, None))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = case.optimizer(parameters) if case.optimizer else None

    def run(arguments: dict[str, torch.Tensor]) -> None:
        model.zero_grad()
        with torch.set_grad_enabled(case.train is not None):
            output = compiled(**arguments)
            if case.train is not None:
                case.train(output).backward()
        if optimizer is not None:
            optimizer.step()

    counts = CudagraphCounts()
    with watching(counts):
        for arguments in calls:
            run(arguments)
        found = list(sources)
        figures = measured(lambda: run(calls[-1]), before)
    if case.mode is not None:  # a CUDA graph keeps its memory, so a later call allocates almost none
        figures = {"kernels": figures["kernels"], "cudagraphs": counts.recorded}
    return found, figures


def measured(run: Callable[[], None], before: dict[str, int]) -> dict[str, int]:
    """The peak memory of a call in bytes, over the memory that was in use before the case, the same without the
    allocator's rounding, and the kernels that the call launches.
    """
    run()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    peaks = {
        name: after[f"{statistic}.all.peak"] - before[f"{statistic}.all.current"]
        for name, statistic in (("peak_memory", "allocated_bytes"), ("requested_memory", "requested_bytes"))
    }
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    kernels = [name for name in names if not name.startswith(("Memcpy", "Memset"))]
    return {**peaks, "kernels": len(kernels)}


GRID: dict[str, tuple[Any, ...]] = {
    "dtype": ("bfloat16", "float16", "float32"),
    "head": (8, 20, 64, 96, 128, 160, 192, 200, 256, 264),
    "lengths": ((64, 64), (1, 64), (64, 1), (100, 60)),
    "kv_heads": (4, 2),
    "mask": ("", "causal", "boolean", "additive", "expanded"),
    "dropout": (0.0, 0.1),
    "grad": (False, True),
    "layout": ("plain", "transposed", "strided"),
}


def attention() -> Iterator[str]:
    """The kernel that the card chooses for each point of the grid, as its letter; "x" where torch raises."""
    for point in points():
        q, k, v, mask, dropout, causal = tensors(*point, device="cuda")
        try:
            with torch.set_grad_enabled(q.requires_grad):
                chosen = torch._fused_sdp_choice(q, k, v, mask, dropout, causal, enable_gqa=k.shape[1] != q.shape[1])
        except RuntimeError:
            yield "x"
        else:
            yield LETTERS[KERNELS[chosen]]


def points() -> Iterator[tuple[Any, ...]]:
    """The points of the grid, in the order of the record."""
    return itertools.product(*GRID.values())


def tensors(
    dtype: str,
    head: int,
    lengths: tuple[int, int],
    kv_heads: int,
    mask: str,
    dropout: float,
    grad: bool,
    layout: str,
    device: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, float, bool]:
    """The inputs of attention at a point of the grid."""
    kind = getattr(torch, dtype)

    def one(heads: int, length: int) -> torch.Tensor:
        size = (2, length, heads, head)
        if layout == "plain":
            tensor = torch.empty(2, heads, length, head, dtype=kind, device=device)
        elif layout == "transposed":
            tensor = torch.empty(size, dtype=kind, device=device).transpose(1, 2)
        else:  # the last stride is not 1
            tensor = torch.empty(2, heads, head, length, dtype=kind, device=device).transpose(2, 3)
        return tensor.requires_grad_(grad)

    q, k, v = one(4, lengths[0]), one(kv_heads, lengths[1]), one(kv_heads, lengths[1])
    size = (2, 1, *lengths)
    made = None
    if mask == "boolean":
        made = torch.empty(size, dtype=torch.bool, device=device)
    elif mask == "additive":
        made = torch.empty(size, dtype=kind, device=device)
    elif mask == "expanded":
        made = torch.empty(2, 1, lengths[0], 1, dtype=torch.bool, device=device).expand(size)
    return q, k, v, made, dropout, mask == "causal"


if __name__ == "__main__":
    main()
