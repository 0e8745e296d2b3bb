"""pytorch_optimizer: steps of optimizers that keep state of many kinds, and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytorch_optimizer as optimizers
import torch
from torch import nn

from libraries.inputs import calls
from libraries.targets import Target

# One optimizer for each way of keeping state, and some with random numbers, foreach ops, factored moments or rotations.
STEPPING: dict[str, dict[str, Any]] = {
    "ADOPT": {}, "AdEMAMix": {}, "AdaBelief": {"rectify": True}, "AdaFactor": {}, "AdaShift": {}, "AdamMini": {},
    "Adan": {}, "AggMo": {}, "AliG": {}, "Amos": {}, "CAME": {}, "DAdaptAdam": {}, "Kate": {}, "LaProp": {}, "Lamb": {},
    "Lion": {}, "Muon": {}, "Nero": {}, "Prodigy": {}, "RAdam": {}, "Ranger21": {"num_iterations": 10}, "SM3": {},
    "SOAP": {}, "SWATS": {}, "ScheduleFreeAdamW": {}, "Kron": {},
}  # fmt: skip


def stepping(name: str, **how: Any) -> Target:
    """Three steps on a matrix and a vector that have gradients."""
    held = [nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(5))]
    for parameter in held:
        parameter.grad = torch.randn_like(parameter)
    kind: Callable[..., torch.optim.Optimizer] = getattr(optimizers, name)
    if name == "AdamMini":
        module = nn.Linear(4, 3)
        for parameter in module.parameters():
            parameter.grad = torch.randn_like(parameter)
        return Target(kind(module, **how).step, [(), (), ()], train=False)
    if name == "Muon":
        return Target(kind([{"params": held[:1], "use_muon": True}], **how).step, [(), (), ()], train=False)
    if name == "AliG":
        return Target(kind(held, **how).step, [(lambda: torch.tensor(2.0),)] * 3, train=False)
    return Target(kind(held, **how).step, [(), (), ()], train=False)


def logits() -> list[tuple[Any, ...]]:
    return calls(lambda n: (torch.randn(n, 4), torch.randint(0, 2, (n, 4)).float()))


TARGETS = {
    **{name: lambda name=name, how=how: stepping(name, **how) for name, how in STEPPING.items()},  # type: ignore[misc]
    "Lookahead": lambda: looking_ahead(),
    "BCEFocalLoss": lambda: Target(optimizers.BCEFocalLoss(), logits()),
    "LDAMLoss": lambda: Target(
        optimizers.LDAMLoss([3, 5, 2]), calls(lambda n: (torch.randn(n, 3), torch.arange(n) % 3))
    ),
    "BiTemperedLogisticLoss": lambda: Target(
        optimizers.BiTemperedLogisticLoss(0.8, 1.2), calls(lambda n: (torch.randn(n, 3), torch.arange(n) % 3))
    ),
    "LovaszHingeLoss": lambda: Target(
        optimizers.LovaszHingeLoss(),
        calls(lambda n: (torch.randn(n, 1, 4, 4), torch.randint(0, 2, (n, 1, 4, 4)).float())),
    ),
    "JaccardLoss": lambda: Target(optimizers.JaccardLoss("binary"), logits()),
}


def looking_ahead() -> Target:
    parameter = nn.Parameter(torch.randn(4, 3))
    parameter.grad = torch.randn(4, 3)
    return Target(optimizers.Lookahead(optimizers.Lion([parameter]), k=2).step, [(), (), ()], train=False)
