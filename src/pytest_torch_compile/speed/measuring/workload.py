"""The timed call: forward, forward and backward, or a whole training step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from ...legs.targets import modules_of, runs_backward


def workload(
    target: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    train: bool | Callable[[Any], Any] = False,
    optimizer: Callable[[list[Any]], Any] | None = None,
    compile: Callable[[Any], Any] | None = None,
) -> Callable[[], object]:
    """Return a function without parameters that runs ``target`` once on the inputs. The function runs only the forward
    pass or, if ``train`` or ``optimizer`` is set, a training step.
    """
    modules = modules_of(target).values()
    parameters = list(dict.fromkeys(p for module in modules for p in module.parameters() if p.requires_grad))
    kwargs = kwargs or {}
    runner = target if compile is None else compile(target)
    # Eager code does not use CUDA graphs, so there is no step to mark.
    new_step = (lambda: None) if compile is None else torch.compiler.cudagraph_mark_step_begin
    if not (runs_backward(train) or optimizer is not None):
        return _forward(runner, args, kwargs, new_step)
    leaves = [t for t in (*parameters, *tensors_in((args, kwargs))) if t.requires_grad and t.is_leaf]
    backward = _backward_of(train if callable(train) else None)
    steps = None if optimizer is None else optimizer(parameters)

    def train_step() -> None:
        new_step()
        for leaf in leaves:
            leaf.grad = None
        backward(runner(*args, **kwargs))
        if steps is not None:
            steps.step()

    return train_step


def _forward(
    runner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], new_step: Callable[[], object]
) -> Callable[[], object]:
    def forward() -> object:
        new_step()
        with torch.no_grad():
            return runner(*args, **kwargs)

    return forward


def _backward_of(loss: Callable[[Any], Any] | None) -> Callable[[Any], None]:
    if loss is not None:
        return lambda output: loss(output).backward()
    seeds: list[torch.Tensor] = []

    def backward(output: Any) -> None:
        outputs = [t for t in tensors_in(output) if t.requires_grad]
        if not seeds:
            seeds.extend(torch.ones_like(t) for t in outputs)
        torch.autograd.backward(outputs, seeds)

    return backward


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in nested tuples, lists, mappings and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for entry in fields(value):
            yield from tensors_in(getattr(value, entry.name))
