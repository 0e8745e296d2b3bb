"""A small driver that runs one module as an eager, a compiled and an fp64 leg and compares them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from pytest_torch_compile.numerics import CallRecord, Comparison, ExtraRuns, Tolerances, compare_call


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: map_tensors(item, change) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map_tensors(item, change) for item in value)
    return value


def to_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def floating_outputs(output: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    values = output.values() if isinstance(output, dict) else output
    if isinstance(output, torch.Tensor):
        found = [output] if output.is_floating_point() and output.requires_grad else []
    elif isinstance(values, (list, tuple)) or isinstance(output, dict):
        for value in values:
            found += floating_outputs(value)
    return found


def run_leg(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    run: Callable[..., Any],
    *,
    train: bool,
    seed: int,
    pristine: Any,
) -> CallRecord:
    initial = {name: value.detach().clone() for name, value in _state(module).items()}
    torch.manual_seed(seed)
    with torch.set_grad_enabled(train):
        output = run(*args)
    if train:
        generator = torch.Generator().manual_seed(seed + 1)
        outputs = floating_outputs(output)
        cotangents = [
            torch.randn(o.shape, generator=generator, dtype=torch.float64).to(device=o.device, dtype=o.dtype)
            for o in outputs
        ]
        torch.autograd.backward(outputs, cotangents)
    return CallRecord(
        "call 1",
        output=output,
        arguments=(args, {}),
        pristine=(pristine, {}),
        state=_state(module),
        initial_state=initial,
        grads={name: p.grad for name, p in module.named_parameters()} if train else {},
        input_grads={str(i): a.grad for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad},
        rng={"cpu": torch.get_rng_state()},
    )


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def compare_legs(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    compile_: Callable[[Any], Any],
    *,
    train: bool = False,
    seed: int = 0,
    tolerances: Tolerances | None = None,
    reference: bool = True,
    compiled_args: tuple[Any, ...] | None = None,
) -> Comparison:
    """Compare ``module`` with ``compile_(module)`` on one call."""

    def leg(make: Callable[[Any], Any], change: Callable[[torch.Tensor], torch.Tensor]) -> CallRecord:
        own = copy.deepcopy(module)
        if change is to_double:
            own = own.double()
        inputs = map_tensors(args, lambda t: change(t.detach()).requires_grad_(t.requires_grad))
        return run_leg(own, inputs, make(own), train=train, seed=seed, pristine=args)

    eager = leg(lambda m: m, torch.clone)
    compiled = leg(compile_, torch.clone)
    return compare_call(
        eager,
        compiled,
        ExtraRuns(
            float64=lambda: leg(lambda m: m, to_double) if reference else None,
            repeat=lambda: leg(lambda m: m, torch.clone),
        ),
        tolerances or Tolerances(),
    )
