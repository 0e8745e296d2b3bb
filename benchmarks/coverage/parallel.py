"""Measure the practices of the coverage page that run on several GPUs: captioning under DDP, float8 training, and
Accelerate's regional compilation.

``python -m benchmarks.coverage.parallel OUT [--tiny]`` writes ``OUT/parallel.json``. All cases compile at the same
time, in separate processes. Then they run alternately on the GPUs, one at a time, for the requested number of rounds.
``--tiny`` does the same with tiny models on a CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from pytest_torch_compile import RankGroup, compile_guard

CAPTIONING = {
    "eager": ("eager", "ddp_optimizer"),
    "compile(DDP)": ("compile(DDP)", "ddp_optimizer"),
    "DDP(compile)": ("DDP(compile)", "ddp_optimizer"),
    "compile(DDP), no_optimization": ("compile(DDP)", "no_optimization"),
    "compile(DDP), python_reducer": ("compile(DDP)", "python_reducer"),
}
LAYERS = 2  # instead of 12 in the encoder and in the decoder, because five cases compile at the same time
PLENTY = 1000


@dataclass(frozen=True)
class Plan:
    """The sizes, the durations, and the folder through which the cases synchronize."""

    tiny: bool
    meeting: str
    steps: int
    rounds: int
    ranks: int

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.tiny else torch.device("cuda", torch.cuda.current_device())


def captioning(plan: Plan, name: str) -> dict[str, Any]:
    """Measure one captioning case. Return the observed compilations, the cold start in seconds, and the seconds of each
    turn.
    """
    from suites.captioning.models import captions, published, published_captions, tiny

    order, mode = CAPTIONING[name]
    torch._dynamo.config.optimize_ddp = mode
    torch.manual_seed(0)
    model = (tiny() if plan.tiny else published(layers=LAYERS)).to(plan.device)
    for name_of, parameter in model.named_parameters():
        parameter.requires_grad_("pooler" not in name_of)  # its output is not used, which DDP does not allow
    batch = captions([12] * 4) if plan.tiny else published_captions([256] * 64)
    batch = {key: tensor.to(plan.device) for key, tensor in batch.items()}
    backend = "aot_eager" if plan.tiny else "inductor"
    parallel = _parallel(model, order, backend, plan)
    optimizer = torch.optim.Adam(model.parameters())
    backward_under = partial(_compiled_autograd, backend) if mode == "python_reducer" else nullcontext

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast(plan.device.type, torch.bfloat16):
            loss = parallel(**batch).loss
        with backward_under():
            loss.backward()
        optimizer.step()
        return loss.detach()

    return _measured(plan, name, step, compiled=order != "eager")


def _parallel(model: nn.Module, order: str, backend: str, plan: Plan) -> nn.Module:
    def ddp(module: nn.Module) -> nn.Module:
        return nn.parallel.DistributedDataParallel(module, device_ids=None if plan.tiny else [plan.device.index])

    if order == "DDP(compile)":
        return ddp(torch.compile(model, backend=backend))
    return torch.compile(ddp(model), backend=backend) if order == "compile(DDP)" else ddp(model)


def _compiled_autograd(backend: str) -> Any:
    from torch._dynamo import compiled_autograd

    return compiled_autograd._enable(torch.compile(backend=backend))


def float8(plan: Plan, name: str) -> dict[str, Any]:
    """Measure training of a compiled and sharded model with matrix products in float8 or in bf16."""
    from suites._ranks import Net, mesh_of_all, shard
    from suites.float8.on_ranks import float8 as quantized

    torch.manual_seed(0)
    width, rows = (256, 32) if plan.tiny else (4096, 16384)
    model = Net(width, layers=4).to(plan.device, torch.bfloat16)
    model = quantized(model) if name == "float8" else model
    for layer in model.layers:
        layer.compile(backend="aot_eager" if plan.tiny else "inductor")
    shard(model, mesh_of_all())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(rows, width, device=plan.device, dtype=torch.bfloat16)
    target = torch.randn(rows, 4, device=plan.device, dtype=torch.bfloat16)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - target).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return _measured(plan, name, step, compiled=True)


def regions(plan: Plan, name: str) -> dict[str, Any]:
    """Measure GPT-2 in inference at several batch sizes, compiled as a whole or by regions through Accelerate."""
    from accelerate.utils import compile_regions
    from transformers import GPT2Config, GPT2LMHeadModel

    # All torch.nn modules that are compiled separately share one dynamo wrapper, and therefore one recompile limit. The
    # five modules other than GPT-2's blocks exceed the default limit of 8 at the second batch size, and would run in
    # eager from then on.
    torch._dynamo.config.recompile_limit = 64
    small = dict(n_embd=32, n_head=2, vocab_size=64, n_layer=2)
    torch.manual_seed(0)
    config = GPT2Config(use_cache=False, **(small if plan.tiny else dict(n_layer=12)))
    model = GPT2LMHeadModel(config).to(plan.device, torch.bfloat16).eval()
    options = dict(backend="aot_eager" if plan.tiny else "inductor", dynamic=False)
    compiled = {"full": torch.compile, "regional": compile_regions}[name](model, **options)
    length = 16 if plan.tiny else 512
    found = {}
    for rows in (4, 16):
        tokens = torch.randint(0, config.vocab_size, (rows, length), device=plan.device)

        def step(tokens: torch.Tensor = tokens) -> torch.Tensor:
            with torch.no_grad():
                return compiled(tokens).logits.float().mean()

        found[f"batch {rows}"] = _measured(plan, f"{name} {rows}", step, compiled=True)
    return found


def _measured(plan: Plan, name: str, step: Callable[[], torch.Tensor], compiled: bool) -> dict[str, Any]:
    """Compile by running three steps, and then measure each turn of this case."""
    start = time.perf_counter()
    losses = []
    with compile_guard(max_graph_breaks=PLENTY, max_recompiles=PLENTY) if compiled else nullcontext() as seen:
        losses.append(step().item())
        cold = time.perf_counter() - start
        losses += [step().item() for _ in range(2)]
    turns = []
    for turn in range(plan.rounds):
        _wait_for(Path(plan.meeting, f"{name}-{turn}"))
        turns.append(_seconds(plan, step) / plan.steps)
        losses.append(step().item())
        distributed.barrier()
        Path(plan.meeting, f"{name}-{turn}-done").touch()
    found = {"cold_seconds": round(cold, 2), "seconds": turns, "losses": losses}
    if seen is not None:
        breaks = [f"{b.category} at {Path(b.location.file).name}:{b.location.line}" for b in seen.graph_breaks]
        found |= {"graphs": len(seen.graphs), "breaks": breaks, "recompiles": len(seen.recompiles)}
    if not plan.tiny:
        found["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return found


def _seconds(plan: Plan, step: Callable[[], Any]) -> float:
    distributed.barrier()
    _synchronize(plan)
    start = time.perf_counter()
    for _ in range(plan.steps):
        step()
    _synchronize(plan)
    return time.perf_counter() - start


def _synchronize(plan: Plan) -> None:
    if not plan.tiny:
        torch.cuda.synchronize()


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


class Case:
    """One case with separate ranks and a thread. ``names`` lists the measurements that the case makes."""

    def __init__(self, plan: Plan, kind: str, name: str, work: Callable[..., Any], ranks: int, limit: float) -> None:
        self.kind, self.name, self.ranks = kind, name, ranks
        self.names = [f"{name} {rows}" for rows in (4, 16)] if kind == "regions" else [name]
        self.result: Any = None
        self._thread = threading.Thread(target=self._run, args=(plan, work, limit))
        self._thread.start()

    def _run(self, plan: Plan, work: Callable[..., Any], limit: float) -> None:
        cache = tempfile.mkdtemp(dir=plan.meeting)
        backend = "gloo" if plan.tiny else "nccl"
        try:
            with RankGroup(
                self.ranks, backend=backend, timeout=limit, environment={"TORCHINDUCTOR_CACHE_DIR": cache}
            ) as group:
                self.result = group.run(work, plan, self.name)
        except Exception as error:
            self.result = {"failed": str(error)[:3000]}

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def take_turn(self, plan: Plan, name: str, turn: int) -> None:
        done = Path(plan.meeting, f"{name}-{turn}-done")
        Path(plan.meeting, f"{name}-{turn}").touch()
        while self.runs and not done.exists():
            time.sleep(0.01)

    def join(self) -> None:
        self._thread.join()


def measured(plan: Plan, limit: float, ready: Path | None, kinds: list[str]) -> dict[str, Any]:
    """Run all cases, which compile at the same time and are timed alternately."""
    started = time.monotonic()
    rows = [("captioning", name, captioning, plan.ranks) for name in CAPTIONING]
    rows += [("float8", name, float8, plan.ranks) for name in ("bf16", "float8")]
    rows += [("regions", name, regions, 1) for name in ("full", "regional")]
    cases = [Case(plan, kind, name, work, ranks, limit) for kind, name, work, ranks in rows if kind in kinds]
    if ready is not None:
        _wait_for(ready)
    for kind in kinds:
        chosen = [case for case in cases if case.kind == kind]
        for part in range(len(chosen[0].names)):
            for turn in range(plan.rounds):
                for case in chosen:
                    case.take_turn(plan, case.names[part], turn)
    for case in cases:
        case.join()
    return {
        "torch": torch.__version__,
        "device": "cpu" if plan.tiny else torch.cuda.get_device_name(0),
        "plan": {key: value for key, value in asdict(plan).items() if key != "meeting"},
        "seconds": round(time.monotonic() - started, 1),
        **{kind: {case.name: summary(case.result) for case in cases if case.kind == kind} for kind in kinds},
    }


def summary(result: Any) -> Any:
    """Return the measurements of the first rank, including the steps per second of the median turn."""
    if not isinstance(result, list):
        return result
    first = result[0]
    parts = first.items() if "seconds" not in first else [("", first)]
    done = {
        name: {**part, "steps_per_second": round(1 / statistics.median(part["seconds"]), 3)} for name, part in parts
    }
    return done.get("", done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--limit", type=float, default=230.0, help="seconds after which the ranks are terminated")
    parser.add_argument("--ranks", type=int, default=2, help="GPUs that captioning and float8 run on")
    parser.add_argument("--kinds", nargs="+", default=["captioning", "regions", "float8"])
    parser.add_argument("--ready", type=Path, help="a file that is created when the GPUs are free for timing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as meeting:
        plan = Plan(arguments.tiny, meeting, steps=2 if arguments.tiny else 20, rounds=2, ranks=arguments.ranks)
        found = measured(plan, arguments.limit, arguments.ready, arguments.kinds)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "parallel.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found)[:4000])


if __name__ == "__main__":
    main()
