"""A train step as people write it, and what of it can be compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..captioning.models import published

Compile = Callable[[Any], Any]


class TrainStep:
    """Forward and loss under autocast, backward, optimizer: ``step(**batch)`` returns the loss.

    ``compute`` and ``update`` are the two parts that the scopes below replace by compiled ones. ``keep_gradients``
    accumulates into the same gradient tensors at every step, instead of dropping them.
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
        """Drop the gradients, or set to zero the tensors that are kept for them."""
        if not self.keep_gradients:
            self.optimizer.zero_grad()
            return
        if not self.kept:
            self.kept = [(parameter, torch.zeros_like(parameter)) for parameter in self.model.parameters()]
        for parameter, gradient in self.kept:
            parameter.grad = gradient.zero_()


def published_step(layers: int, keep_gradients: bool = False) -> TrainStep:
    """The train step of the published figures on a CUDA device: the captioner, bf16 autocast, Adam."""
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
    """Compile the model, and the optimizer's step apart from it."""
    return optimizer_only(module(step, compile), compile)


def optimizer_only(step: TrainStep, compile: Compile) -> TrainStep:
    """Compile the optimizer's step."""
    step.update = compile(step.update)
    return step


def whole_step(step: TrainStep, compile: Compile) -> Any:
    """Compile the whole step, backward and optimizer included."""
    return compile(step)
