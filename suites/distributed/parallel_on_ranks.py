"""Five kinds of parallelism, compiled in both orders. For each there is a way to make the last rank differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from pytest_torch_compile import call, check_compile, compile_guard, on_parts

from .._ranks import Block, FeedForward, device, mesh_of_all, split

WIDTH = 32


class Layers(nn.Module):
    """One layer for each rank, all of them equal; each layer is one stage of a pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(WIDTH) for _ in range(distributed.get_world_size()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Experts(nn.Module):
    """One expert for each rank. Row ``i`` of the batch goes to expert ``i % experts``."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(distributed.get_world_size()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        number = len(self.experts)
        rows = [expert(x[i::number]) for i, expert in enumerate(self.experts)]
        return torch.stack(rows, 1).reshape(x.shape)


class ExpertParallel(nn.Module):
    """The same model with one expert per rank: rows are sent to the expert's rank and back."""

    def __init__(self, experts: nn.ModuleList) -> None:
        super().__init__()
        self.experts = experts

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        number = len(self.experts)
        sorted_rows = x.reshape(-1, number, WIDTH).transpose(0, 1).reshape(-1, WIDTH)
        mine = self.experts[distributed.get_rank()](exchanged(sorted_rows))
        return exchanged(mine).reshape(number, -1, WIDTH).transpose(0, 1).reshape(x.shape)


def exchanged(rows: torch.Tensor) -> torch.Tensor:
    """Exchange rows: rank n receives the n-th part of the rows of each rank."""
    from torch.distributed import _functional_collectives as collectives

    rows = collectives.all_to_all_single_autograd(rows.contiguous(), None, None, distributed.group.WORLD)
    return collectives.wait_tensor(rows)


class OddLayer(nn.Module):
    """A layer with the same result on all ranks, computed differently on the last one."""

    def __init__(self, layer: nn.Module, how: str, own: Any) -> None:
        super().__init__()
        self.layer, self.how, self.own = layer, how, own

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        if distributed.get_rank() == distributed.get_world_size() - 1:
            if self.how == "branch":
                x = x.neg().neg()
            if self.how == "collective":
                distributed.all_reduce(y := x.detach().clone(), group=self.own)
                x = x + y.sum() * 0
        return x


def ddp(module: nn.Module, **options: Any) -> nn.Module:
    on_cuda = device().type == "cuda"
    return DistributedDataParallel(module, device_ids=[device().index] if on_cuda else None, **options)


def data_parallel(module: nn.Module, compile: Callable[[Any], Any], outside: bool) -> Any:
    return compile(ddp(module)) if outside else ddp(compile(module))


def fully_sharded(module: nn.Module, compile: Callable[[Any], Any], outside: bool) -> Any:
    from torch.distributed.fsdp import fully_shard

    for layer in module.layers:
        if not outside:
            layer.forward = compile(layer.forward)
        fully_shard(layer, mesh=mesh_of_all())
    fully_shard(module, mesh=mesh_of_all())
    return compile(module) if outside else module


def tensor_parallel(module: nn.Module, compile: Callable[[Any], Any], outside: bool) -> Any:
    inner = module.layer if isinstance(module, OddLayer) else module
    if not outside:
        module.forward = compile(module.forward)
    split(inner, mesh_of_all())
    return compile(module) if outside else module


def expert_parallel(module: nn.Module, compile: Callable[[Any], Any], outside: bool) -> Any:
    odd, inner = isinstance(module, OddLayer), getattr(module, "layer", module)
    parallel: nn.Module = ExpertParallel(inner.experts)
    parallel = OddLayer(parallel, module.how, module.own) if odd else parallel
    # The mean over ranks yields the gradient of each expert, because the other ranks contribute nothing to it.
    options = {"find_unused_parameters": True}
    return compile(ddp(parallel, **options)) if outside else ddp(compile(parallel), **options)


def pipeline_stage(module: nn.Module, compile: Callable[[Any], Any], outside: bool) -> Any:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    own = module.layers[rank]
    stage = PipelineStage(own if outside else compile(own), rank, ranks, device())
    if outside:
        stage.submod = compile(stage.submod)
    schedule = ScheduleGPipe(stage, n_microbatches=2)

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            output = schedule.step(x) if rank == 0 else schedule.step()
        output = torch.empty_like(x) if output is None else output.detach()
        distributed.broadcast(output, ranks - 1)
        return output

    return step


KINDS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Any], bool]] = {
    # the model, the way it is parallelised, and whether each rank has a part of the batch
    "ddp": (Layers, data_parallel, True),
    "fully_shard": (Layers, fully_sharded, True),
    "tensor parallel": (FeedForward, tensor_parallel, False),
    "pipeline": (Layers, pipeline_stage, False),
    "experts": (Experts, expert_parallel, True),
}


def trained(kind: str, outside: bool, **budget: Any) -> dict[str, int]:
    """Compare the model with eager in one process on the whole batch, using ``check_compile``."""
    make, parallel, parts = KINDS[kind]
    torch.manual_seed(0)
    model, batch = make().to(device()), torch.randn(4 * distributed.get_world_size(), WIDTH).to(device())

    def wrap(module: nn.Module) -> Any:
        return parallel(module, lambda m: torch.compile(m, backend="aot_eager"), outside)

    calls = [call(batch).under(torch.no_grad) if kind == "pipeline" else call(batch)]
    training = {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1), "steps": 2} if kind != "pipeline" else {}
    report = check_compile(model, calls=calls, compile=on_parts(wrap) if parts else wrap, **training, **budget)
    return {"graphs": len(report.graphs), "breaks": len(report.graph_breaks), "recompiles": len(report.recompiles)}


def diverging(kind: str, outside: bool, how: str) -> None:
    """Run two calls in which the last rank has a different branch, an additional collective, or a second batch of a
    different size."""
    make, parallel, _ = KINDS[kind]
    torch.manual_seed(0)
    groups = [distributed.new_group([rank]) for rank in range(distributed.get_world_size())]
    own = groups[distributed.get_rank()]
    model = make().to(device())
    if hasattr(model, "layers"):
        for number, layer in enumerate(model.layers):
            model.layers[number] = OddLayer(layer, how, own)
    else:
        model = OddLayer(model, how, own)
    last = distributed.get_rank() == distributed.get_world_size() - 1
    rows = 4 * distributed.get_world_size()
    step = parallel(model, lambda m: torch.compile(m, backend="aot_eager"), outside)
    with compile_guard(max_graph_breaks=9, max_recompiles=9, name=kind):
        for batch in (rows, rows * 2 if how == "batch" and last else rows):
            step(torch.randn(batch, WIDTH).to(device()))
