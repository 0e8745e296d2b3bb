"""Memory that a check takes on top of its target's weights: `python benchmarks/check_memory.py --device cuda`.

Each row runs in a fresh process. "beyond" is the peak of the check over that of the same work by hand, in multiples of
the weights; the compiled leg runs with backend aot_eager, so that no code is generated.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from functools import partial

ROWS = ("inference", "inference, snapshots on the host", "training with AdamW", "float64 reference")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--layers", type=int, default=16, help="linear layers of 64 MiB in float32")
    parser.add_argument("--row", help="measure one row in this process")
    options = parser.parse_args()
    if options.row:
        print(json.dumps(measured(options.row, options.device, options.layers)))
        return
    for row in ROWS:
        command = [sys.executable, __file__, "--device", options.device, "--layers", str(options.layers), "--row", row]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(
            f"{row}: {done.stdout.strip().splitlines()[-1] if done.returncode == 0 else done.stderr[-400:]}", flush=True
        )


def measured(row: str, device: str, layers: int) -> dict[str, float]:
    import torch

    from pytest_torch_compile import check_compile

    model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(layers))).to(device)
    x = torch.randn(2, 4096, device=device)
    weights = sum(parameter.nbytes for parameter in model.parameters())
    peak = _peak_on(device)
    adamw = partial(torch.optim.AdamW, foreach=False)

    def by_hand() -> None:
        if "AdamW" in row:
            optimizer = adamw(model.parameters())
            model(x).sum().backward()
            optimizer.step()
            model.zero_grad()
        else:
            with torch.no_grad():
                model(x)

    torch._dynamo.config.suppress_errors = False
    begin = peak()
    by_hand()
    hand = peak() - begin
    options: dict[str, object] = {"backend": "aot_eager"}
    options |= {"train": True, "optimizer": adamw} if "AdamW" in row else {}
    options |= {"snapshots": "host"} if "host" in row else {}
    target: Callable[..., object] = model
    if "float64" in row:  # compiled differs by rounding, so that the reference has to run
        target = torch.nn.Sequential(*model, _Off())
    with torch.no_grad() if "AdamW" not in row else torch.enable_grad():
        check_compile(target, x, **options)
    whole = peak() - begin
    return {"weights GB": weights / 1e9, "by hand W": hand / weights, "beyond W": (whole - hand) / weights}


def _peak_on(device: str) -> Callable[[], int]:
    import torch

    if device == "cuda":
        return torch.cuda.max_memory_allocated
    return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _Off() -> object:
    import torch

    class Off(torch.nn.Module):
        def forward(self, y: torch.Tensor) -> torch.Tensor:
            return y * (1 + 5e-7) if torch.compiler.is_compiling() else y * 1

    return Off()


if __name__ == "__main__":
    main()
