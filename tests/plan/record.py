"""Record on a CUDA card what plans are held against: ``python -m tests.plan.record FOLDER [CASE...]`` from the repository's root.

It writes the code that Inductor generates for each case, whole (for reading) and as hashes (for the tests), and the
kernel that the card chooses for a grid of attention inputs.
"""

from __future__ import annotations

import gzip
import itertools
import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tests.plan.code import hashes
from tests.plan.recorded_cases import OWN, built

KERNELS = {0: "math", 1: "flash", 2: "memory-efficient", 3: "cuDNN"}


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    sources = {}
    for name in names or OWN:
        try:
            sources[name] = generated(name)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        else:
            print(f"{name}: {len(sources[name])} graphs", flush=True)
    release = ".".join(torch.__version__.split(".")[:2])
    head: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": release}
    head["packages"] = {package: version(package) for package in ("torchvision", "transformers")}
    label = f"{head['device'].replace(' ', '-')}_torch-{release}"
    cases = {name: [hashes(source) for source in graphs] for name, graphs in sources.items()}
    (folder / f"{label}.json").write_text(json.dumps({**head, "cases": cases}, indent=1))
    (folder / f"{label}.sources.json.gz").write_bytes(gzip.compress(json.dumps(sources).encode()))
    rows = [[*inputs, chosen] for inputs, chosen in attention()]
    (folder / f"{label}.attention.json").write_text(json.dumps({**head, "rows": rows}, indent=None))


def generated(name: str) -> list[str]:
    """The code of each graph of a case."""
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    config.force_disable_caches, config.shape_padding = True, False
    torch.backends.mha.set_fastpath_enabled(False)
    torch._dynamo.reset()
    sources: list[str] = []
    GraphLowering.save_output_code = staticmethod(sources.append)
    case = built(name)
    layout = {"memory_format": torch.preserve_format}
    arguments = {key: value.to("cuda", **layout) for key, value in case.arguments.items()}
    model = case.model.to("cuda")
    with torch.set_grad_enabled(case.train is not None):
        output = torch.compile(model, dynamic=case.dynamic)(**arguments)
        if case.train is not None:
            case.train(output).backward()
    return sources


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


def attention() -> Iterator[tuple[tuple[Any, ...], str]]:
    """Each point of the grid, and the kernel that the card chooses."""
    for point in itertools.product(*GRID.values()):
        q, k, v, mask, dropout, causal = tensors(*point, device="cuda")
        try:
            with torch.set_grad_enabled(q.requires_grad):
                chosen = torch._fused_sdp_choice(q, k, v, mask, dropout, causal, enable_gqa=k.shape[1] != q.shape[1])
        except RuntimeError as error:
            yield point, f"error: {str(error)[:60]}"
        else:
            yield point, KERNELS.get(chosen, str(chosen))


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
