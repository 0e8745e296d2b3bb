"""Measure the memory that a check needs in addition to its target's weights: `python benchmarks/check_memory.py
--device cuda`.

Each row runs in a fresh process. "beyond W" is the check's peak memory minus the peak of the same work without the
check, in multiples of the weights. The compiled run uses backend aot_eager, which does not generate code. The rows for
a Llama with random weights require transformers and a GPU with 80 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch


@dataclass(frozen=True)
class Row:
    """A target and the way it is checked. ``layers`` is the number of layers of a Llama; if it is 0, linear layers are
    checked.
    """

    name: str
    train: bool = False
    snapshots: str | None = None
    differs: bool = False
    layers: int = 0


ROWS = (
    Row("inference"),
    Row("inference, snapshots on the host", snapshots="host"),
    Row("training with AdamW", train=True),
    Row("training with AdamW, snapshots on the device", train=True, snapshots="device"),
    Row("values that differ: float64 and perturbed runs", differs=True),
    Row("Llama in bfloat16, inference", layers=32),
    Row("Llama in bfloat16, training a slice", train=True, layers=4),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, default=16, help="linear layers of 64 MiB in float32")
    parser.add_argument("--row", type=int, help="measure one row, from 0, in this process")
    options = parser.parse_args()
    if options.row is not None:
        print(json.dumps(measured(ROWS[options.row], options.device, options.layers)))
        return
    for number, row in enumerate(ROWS):
        if row.layers and options.device == "cpu":
            continue
        command = [sys.executable, __file__, "--device", options.device, "--layers", str(options.layers)]
        done = subprocess.run([*command, "--row", str(number)], capture_output=True, text=True, check=False)
        said = done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr[-400:]
        print(f"{row.name}: {said}", flush=True)


def measured(row: Row, device: str, layers: int) -> dict[str, float]:
    """Measure one row. Return the peaks in multiples of the weights, and the duration of the check in seconds."""
    from pytest_torch_compile import CompileCheckFailed, check_compile

    model, arguments = llama(row.layers, device) if row.layers else linear(layers, device)
    weights = sum(parameter.nbytes for parameter in model.parameters())
    peak = peak_on(device)
    adamw = partial(torch.optim.AdamW, foreach=False)

    def by_hand() -> None:
        output = model(*arguments)
        if row.train:
            optimizer = adamw(model.parameters())
            output.sum().backward()
            optimizer.step()
            model.zero_grad()

    options: dict[str, Any] = {"backend": "aot_eager", "snapshots": row.snapshots, "diagnose": "off"}
    options |= {"train": True, "optimizer": adamw} if row.train else {}
    with torch.enable_grad() if row.train else torch.no_grad():
        begin = peak()
        by_hand()
        hand = peak() - begin
        target = Differs(model) if row.differs else model  # make the compiled result differ, so that the reference runs
        started = time.perf_counter()
        with suppress(CompileCheckFailed):
            check_compile(target, *arguments, **options)
        seconds = time.perf_counter() - started
    whole = peak() - begin
    return {
        "weights GB": round(weights / 1e9, 2),
        "by hand W": round(hand / weights, 3),
        "beyond W": round((whole - hand) / weights, 3),
        "seconds": round(seconds, 1),
    }


def linear(layers: int, device: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(layers))).to(device)
    return model, (torch.randn(2, 4096, device=device),)


def llama(layers: int, device: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return a model with the dimensions of Llama 2 7B, ``layers`` layers and logits as its only output, with its
    inputs.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device(device):
        made = LlamaForCausalLM._from_config(LlamaConfig(num_hidden_layers=layers), dtype=torch.bfloat16)
    return Logits(made.eval()), (torch.randint(0, 32_000, (2, 64), device=device),)


class Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor) -> Any:
        return self.model(input_ids=ids, use_cache=False).logits


class Differs(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> Any:
        y = self.model(x)
        return y * (1 + 1e-4) if torch.compiler.is_compiling() else y * 1


def peak_on(device: str) -> Callable[[], int]:
    if device == "cuda":
        return torch.cuda.max_memory_allocated
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
