"""The functions that each rank runs in these tests."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import FullyShardedDataParallelPlugin, TorchDynamoPlugin
from torch import nn

from .._ranks import Parallel, device, gathered, net_and_batch, sgd, train_beside_one_process


def accelerator(regional: bool, backend: str, **options: Any) -> Accelerator:
    """An ``Accelerator`` on this rank's device, with the settings that Accelerate's launcher would set."""
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    plugin = TorchDynamoPlugin(backend=backend, use_regional_compilation=regional)
    tf32 = torch.backends.cuda.matmul.allow_tf32
    found = Accelerator(cpu=device().type == "cpu", dynamo_plugin=plugin, **options)
    # With a compile plugin, Accelerate allows TF32 for the whole process, but the reference steps in one process do not
    # use it.
    torch.backends.cuda.matmul.allow_tf32 = tf32
    return found


def under_ddp(regional: bool, backend: str = "aot_eager", **budget: Any) -> dict[str, Any]:
    """Train under DDP, as configured by ``prepare``."""

    def setup(model: nn.Module) -> Parallel:
        accelerate = accelerator(regional, backend)
        parallel, optimizer = accelerate.prepare(model, sgd(model))
        return Parallel(parallel, optimizer, accelerate.backward, lambda: gathered(model))

    return train_beside_one_process(net_and_batch, setup, **budget)


def under_fsdp(regional: bool, backend: str = "aot_eager", **budget: Any) -> dict[str, Any]:
    """Train under FSDP 2, with each layer as a separate unit."""

    def setup(model: nn.Module) -> Parallel:
        plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Block"]
        )
        accelerate = accelerator(regional, backend, fsdp_plugin=plugin)
        parallel, optimizer = accelerate.prepare(model, sgd(model))
        return Parallel(parallel, optimizer, accelerate.backward, lambda: gathered(parallel))

    return train_beside_one_process(net_and_batch, setup, **budget)


def under_deepspeed(regional: bool, backend: str = "aot_eager", **budget: Any) -> dict[str, Any]:
    """Train under DeepSpeed's ZeRO 2."""
    from accelerate.utils import DeepSpeedPlugin

    def setup(model: nn.Module) -> Parallel:
        config = {
            "train_micro_batch_size_per_gpu": 4,
            "zero_optimization": {"stage": 2},
            "zero_allow_untested_optimizer": True,
        }
        accelerate = accelerator(regional, backend, deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config))
        parallel, optimizer = accelerate.prepare(model, sgd(model))
        return Parallel(parallel, optimizer, accelerate.backward, lambda: gathered(model))

    return train_beside_one_process(net_and_batch, setup, **budget)


def device_name() -> str:
    """The device that Accelerate has assigned to this rank."""
    return str(torch.device(accelerator(False, "no").device))
