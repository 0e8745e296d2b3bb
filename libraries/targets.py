"""A target: an object that a library exports, and the calls to run."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from . import packages

INFERENCE, TRAINING = "inference", "training"
MODES = (INFERENCE, TRAINING)


@dataclass(frozen=True)
class Target:
    """The object to compile, and the positional arguments of each call.

    ``train`` is False if gradients are meaningless for the target, and ``infer`` is False if only gradients are
    meaningful. ``expect`` lists finding kinds; a planted defect must cause one of them.
    """

    target: Callable[..., Any]
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    train: bool = True
    infer: bool = True
    expect: tuple[str, ...] = ()


Factory = Callable[[], Target]


def factories(package: str) -> Mapping[str, Factory]:
    """Maps names to the targets of one package, or to the planted defects."""
    where = "libraries.planted" if package == "planted" else f"libraries.packages.{package}"
    targets: Mapping[str, Factory] = importlib.import_module(where).TARGETS
    return targets


def package_names() -> list[str]:
    """The names of all packages that have a file, and of the planted defects."""
    return [*sorted(module.name for module in pkgutil.iter_modules(packages.__path__)), "planted"]


def built(factory: Factory, mode: str) -> Target | None:
    """Build the target with the same random numbers each time; None if it is not meant for this mode."""
    seed(0)
    made = factory()
    if not (made.train if mode == TRAINING else made.infer):
        return None
    if isinstance(made.target, nn.Module):
        made.target.train(mode == TRAINING)
    if mode == TRAINING:
        for leaf in tensors(made.calls):
            if leaf.is_floating_point() and leaf.is_leaf:
                leaf.requires_grad_()
    return made


def seed(number: int) -> None:
    random.seed(number)
    torch.manual_seed(number)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(number)


def tensors(tree: Any) -> Iterator[torch.Tensor]:
    """The tensors in containers."""
    return (leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor))
