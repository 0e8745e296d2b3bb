"""A typical training step, and the parts of it that can be compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..captioning.models import published

Compile = Callable[[Any], Any]


class TrainStep:
    """Forward and loss under autocast, backward, optimizer: ``step(**batch)`` returns the loss.

    ``compute`` and ``update`` are the two parts that the functions below replace with compiled versions.
    ``keep_gradients`` keeps the same gradient tensors in every step instead of discarding them.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        autocast: Callable[[], Any],
        keep_gradients: bool = False,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.autocast = autocast
        self.keep_gradients = keep_gradients
        self.kept: list[tuple[torch.nn.Parameter, torch.Tensor]] = []

    def __call__(self, **batch: torch.Tensor) -> torch.Tensor:
        self.clear_gradients()
        with torch.enable_grad():
            loss = self.compute(batch)
            loss.backward()
        self.update()
        return loss.detach()

    def compute(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """The loss of a batch."""
        with self.autocast():
            return self.model(**batch).loss

    def update(self) -> None:
        """One step of the optimizer."""
        self.optimizer.step()

    def clear_gradients(self) -> None:
        """Discard the gradients, or set them to zero if they are kept."""
        if not self.keep_gradients:
            self.optimizer.zero_grad()
            return
        if not self.kept:
            self.kept = [(parameter, torch.zeros_like(parameter)) for parameter in self.model.parameters()]
        for parameter, gradient in self.kept:
            parameter.grad = gradient.zero_()


def published_step(layers: int, keep_gradients: bool = False) -> TrainStep:
    """The training step of the published figures on a CUDA device: the captioner with bf16 autocast and Adam."""
    model = published(layers).cuda().train()
    autocast = partial(torch.autocast, "cuda", torch.bfloat16)
    return TrainStep(model, torch.optim.Adam(model.parameters(), lr=1e-5), autocast, keep_gradients)


def module(step: TrainStep, compile: Compile) -> TrainStep:
    """Compile the model."""
    step.model = compile(step.model)
    return step


def module_and_loss(step: TrainStep, compile: Compile) -> TrainStep:
    """Compile the model together with the loss and autocast."""
    step.compute = compile(step.compute)
    return step


def optimizer(step: TrainStep, compile: Compile) -> TrainStep:
    """Compile the model and, separately, the optimizer's step."""
    return optimizer_only(module(step, compile), compile)


def optimizer_only(step: TrainStep, compile: Compile) -> TrainStep:
    """Compile the optimizer's step."""
    step.update = compile(step.update)
    return step


def whole_step(step: TrainStep, compile: Compile) -> Any:
    """Compile the whole step, including backward and the optimizer."""
    return compile(step)
