"""Record on a CUDA card what plans are held against: ``python -m tests.plan.record FOLDER [CASE...]`` from the repository's root.

It writes the code that Inductor generates for each case, whole (for reading) and as hashes (for the tests), the kernels
and the peak memory of a call, and the kernel that the card chooses for a grid of attention inputs. cuBLAS takes memory
for its work in each process, which a plan does not know: ``CUBLAS_WORKSPACE_CONFIG=:0:0 CUBLASLT_WORKSPACE_SIZE=0`` in
the environment keeps it out of the peak.
"""

from __future__ import annotations

import gc
import gzip
import itertools
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from pytest_torch_compile._torch.planning.attention import CUDNN, EFFICIENT, FLASH, MATH
from tests.plan.code import hashes
from tests.plan.recorded_cases import OWN, built

# What torch returns for each kernel, and the letter of a kernel in the record.
KERNELS = {0: MATH, 1: FLASH, 2: EFFICIENT, 3: CUDNN}
LETTERS = {MATH: "m", FLASH: "f", EFFICIENT: "e", CUDNN: "c"}


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sources, measured = {}, {}
    for name in names or OWN:
        try:
            sources[name], measured[name] = generated(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        else:
            print(f"{name}: {len(sources[name])} graphs", flush=True)
    release = ".".join(torch.__version__.split(".")[:2])
    head: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": release}
    head["packages"] = {package: version(package) for package in ("torchvision", "transformers")}
    label = f"{head['device'].replace(' ', '-')}_torch-{release}"
    cases = {name: [hashes(source) for source in graphs] for name, graphs in sources.items()}
    (folder / f"{label}.json").write_text(json.dumps({**head, "cases": cases, "measured": measured}, indent=1))
    (folder / f"{label}.sources.json.gz").write_bytes(gzip.compress(json.dumps(sources).encode()))
    chosen = "".join(attention())
    (folder / f"{label}.attention.json").write_text(
        json.dumps({**head, "chosen": textwrap.wrap(chosen, 100)}, indent=1)
    )


def generated(name: str) -> tuple[list[str], dict[str, int]]:
    """The code of each graph of a case, and what a later call measures."""
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    config.force_disable_caches, config.shape_padding = True, False
    torch.backends.mha.set_fastpath_enabled(False)
    torch._dynamo.reset()
    gc.collect()
    before = torch.cuda.memory_allocated()
    sources: list[str] = []
    GraphLowering.save_output_code = staticmethod(sources.append)
    case = built(name)
    layout = {"memory_format": torch.preserve_format}
    arguments = {key: value.to("cuda", **layout) for key, value in case.arguments.items()}
    model = case.model.to("cuda")
    compiled = torch.compile(model, dynamic=case.dynamic)

    def run() -> None:
        model.zero_grad()
        with torch.set_grad_enabled(case.train is not None):
            output = compiled(**arguments)
            if case.train is not None:
                case.train(output).backward()

    run()
    return sources, measured(run, before)


def measured(run: Callable[[], None], before: int) -> dict[str, int]:
    """The peak memory of a call in bytes, over the memory that was in use before the case, and the kernels that it
    launches.
    """
    run()
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    kernels = [name for name in names if not name.startswith(("Memcpy", "Memset"))]
    return {"peak_memory": peak, "kernels": len(kernels)}


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
    main(Path(sys.argv[1]), sys.argv[2:])
