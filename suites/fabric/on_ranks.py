"""The functions that each rank runs in these tests."""

from __future__ import annotations

from typing import Any

import torch
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy
from torch import distributed, nn

from .._ranks import (
    NotingBackend,
    Parallel,
    device,
    feed_forward_and_batch,
    gathered,
    net_and_batch,
    sgd,
    shard,
    split,
    train_beside_one_process,
)


def _fabric(strategy: Any) -> Fabric:
    fabric = Fabric(accelerator=device().type, devices=distributed.get_world_size(), strategy=strategy)
    fabric.launch()
    return fabric


def under_ddp(reapply: bool, backend: str | None = None, **budget: Any) -> dict[str, Any]:
    """Compile before ``setup()``, and train under DDP."""
    noting = NotingBackend()

    def setup(model: nn.Module) -> Parallel:
        fabric = _fabric(DDPStrategy(bucket_cap_mb=1))
        compiled = torch.compile(model, backend=backend or noting)
        parallel, optimizer = fabric.setup(compiled, sgd(model), _reapply_compile=reapply)
        outermost = type(parallel._forward_module).__name__
        assert outermost == ("OptimizedModule" if reapply else "DistributedDataParallel"), outermost
        return Parallel(parallel, optimizer, fabric.backward, lambda: gathered(model))

    found = train_beside_one_process(net_and_batch, setup, **budget)
    return {**found, "compiled": noting.graphs}


def under_fsdp(reapply: bool, **budget: Any) -> dict[str, Any]:
    """Compile before ``setup()``, and train under FSDP, which Fabric supports only on CUDA devices."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    noting = NotingBackend()

    def setup(model: nn.Module) -> Parallel:
        fabric = _fabric(FSDPStrategy(use_orig_params=True))
        compiled = torch.compile(model, backend=noting)
        parallel = fabric.setup_module(compiled, _reapply_compile=reapply)
        optimizer = fabric.setup_optimizers(sgd(parallel))

        def parameters() -> dict[str, torch.Tensor]:
            root = next(m for m in parallel.modules() if isinstance(m, FullyShardedDataParallel))
            with FullyShardedDataParallel.summon_full_params(root, writeback=False):
                return {name: p.detach().clone() for name, p in gathered(root).items()}

        return Parallel(parallel, optimizer, fabric.backward, parameters)

    found = train_beside_one_process(net_and_batch, setup, **budget)
    return {**found, "compiled": noting.graphs}


def under_model_parallel(how: str, backend: str | None = None, **budget: Any) -> dict[str, Any]:
    """Shard or split the model inside ``parallelize_fn``, and compile it there."""
    noting = NotingBackend()
    sharded = how == "fully_shard"

    def parallelize(module: nn.Module, mesh: Any) -> nn.Module:
        parallel = shard(module, mesh["data_parallel"]) if sharded else split(module, mesh["tensor_parallel"])
        return torch.compile(parallel, backend=backend or noting)

    def setup(model: nn.Module) -> Parallel:
        ranks = distributed.get_world_size()
        sizes = {"data_parallel_size": ranks if sharded else 1, "tensor_parallel_size": 1 if sharded else ranks}
        fabric = _fabric(ModelParallelStrategy(parallelize, **sizes))
        parallel = fabric.setup_module(model)
        optimizer = fabric.setup_optimizers(sgd(parallel))
        return Parallel(parallel, optimizer, fabric.backward, lambda: gathered(parallel), whole_batch=not sharded)

    found = train_beside_one_process(net_and_batch if sharded else feed_forward_and_batch, setup, **budget)
    return {**found, "compiled": noting.graphs, "forward": noting.forward, "backward": noting.backward}
