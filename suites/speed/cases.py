"""The speed cases, each with a model, an input, the work to measure and a mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from . import models

Inputs = Callable[[torch.device, torch.dtype], dict[str, torch.Tensor]]


@dataclass(frozen=True)
class Case:
    """One speed test. ``work`` is "forward", "backward" (forward and backward) or "step" (which includes the
    optimizer)."""

    subject: str
    model: Callable[[], nn.Module]
    inputs: Inputs
    work: str = "forward"
    mode: str = "default"
    core: bool = False

    def build(self, device: torch.device) -> tuple[nn.Module, dict[str, Any], dict[str, Any]]:
        """The module, its keyword arguments, and the options of the measurement."""
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        torch.manual_seed(0)
        module = self.model().to(device, dtype).train(self.work != "forward")
        options: dict[str, Any] = {"mode": None if self.mode == "default" else self.mode}
        if self.work != "forward":
            options["train"] = loss_of
        if self.work == "step":
            options["optimizer"] = partial(torch.optim.AdamW, lr=1e-5)
        return module, self.inputs(device, dtype), options


def loss_of(output: Any) -> torch.Tensor:
    """The loss that a model computed from its labels, or else a simple loss over its logits."""
    if getattr(output, "loss", None) is not None:
        return output.loss
    logits = output if isinstance(output, torch.Tensor) else output.logits
    return logits.float().square().mean()


def images(batch: int, side: int = 224, name: str = "pixel_values", channels_last: bool = False) -> Inputs:
    """Random images."""

    def make(device: torch.device, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        pixels = torch.randn(batch, 3, side, side, device=device, dtype=dtype)
        return {name: pixels.contiguous(memory_format=torch.channels_last) if channels_last else pixels}

    return make


def words(batch: int, length: int, *, labels: bool = False, name: str = "input_ids") -> Inputs:
    """Random token ids, with labels for training."""

    def make(device: torch.device, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        ids = torch.randint(1, models.VOCABULARY, (batch, length), device=device)
        return {name: ids, "labels": ids.clone()} if labels else {name: ids}

    return make


def both(first: Inputs, second: Inputs) -> Inputs:
    """Images together with tokens."""
    return lambda device, dtype: {**first(device, dtype), **second(device, dtype)}


def captions(batch: int, length: int, labels: bool = False) -> Inputs:
    """Images and the tokens so far."""
    names = words(batch, length, name="labels" if labels else "decoder_input_ids")
    return both(images(batch), names)


_x = partial(images, name="x")
CASES: dict[str, Case] = {
    "resnet18-forward-default": Case("vision", models.resnet18, _x(64, channels_last=True), core=True),
    "resnet18-step-default": Case("vision", models.resnet18, _x(32, channels_last=True), "step", core=True),
    "mobilenet-forward-default": Case("vision", models.mobilenet, _x(16), core=True),
    "convnext-forward-default": Case("vision", models.convnext, images(16)),
    "vit-forward-default": Case("vision", models.vit, images(32), core=True),
    "vit-forward-reduce-overhead": Case("vision", models.vit, images(8), mode="reduce-overhead", core=True),
    "vit-forward-max-autotune": Case("vision", models.vit, images(16), mode="max-autotune"),
    "vit-backward-default": Case("vision", models.vit, images(16), "backward"),
    "bert-forward-default": Case("transformers", models.bert, words(8, 128), core=True),
    "bert-forward-reduce-overhead": Case("transformers", models.bert, words(16, 128), mode="reduce-overhead"),
    "bert-step-default": Case("transformers", models.bert, words(16, 128, labels=True), "step", core=True),
    "bert-backward-reduce-overhead": Case(
        "transformers", models.bert, words(8, 128, labels=True), "backward", "reduce-overhead"
    ),
    "gpt2-forward-default": Case("transformers", models.gpt2, words(8, 128), core=True),
    "gpt2-forward-max-autotune": Case("transformers", models.gpt2, words(16, 128), mode="max-autotune", core=True),
    "gpt2-backward-default": Case("transformers", models.gpt2, words(8, 128, labels=True), "backward"),
    "llama-forward-default": Case("transformers", models.llama, words(8, 128), core=True),
    "llama-forward-reduce-overhead": Case(
        "transformers", models.llama, words(16, 128), mode="reduce-overhead", core=True
    ),
    "llama-step-default": Case("transformers", models.llama, words(8, 128, labels=True), "step"),
    "captioner-forward-default": Case("captioning", models.captioner, captions(8, 32), core=True),
    "captioner-forward-reduce-overhead": Case("captioning", models.captioner, captions(8, 32), mode="reduce-overhead"),
    "captioner-forward-max-autotune": Case("captioning", models.captioner, captions(8, 32), mode="max-autotune"),
    "captioner-step-default": Case("captioning", models.captioner, captions(8, 32, labels=True), "step", core=True),
    "captioner-backward-reduce-overhead": Case(
        "captioning", models.captioner, captions(8, 32, labels=True), "backward", "reduce-overhead"
    ),
    "conv-captioner-forward-default": Case(
        "captioning", models.ConvCaptioner, both(images(4, name="pixels"), words(4, 16, name="words"))
    ),
}
