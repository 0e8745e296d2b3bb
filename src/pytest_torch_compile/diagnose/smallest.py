"""The smallest submodule that still shows the finding."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..legs.calls import Call
from .subject import OutOfTime, Subject

Inputs = dict[str, list[Call]]


def smallest_module(subject: Subject) -> list[str]:
    """Go down from module to module, as long as one alone shows a finding of the same kind."""
    target = subject.work.target
    if not isinstance(target, torch.nn.Module) or subject.work.optimizer is not None:
        return []
    inputs, kinds = captured(target, subject.work.calls), subject.kinds
    name, tried = "", 0
    while True:
        for child in children(target, name):
            if child not in inputs or len(inputs[child]) != len(subject.work.calls):
                continue
            try:
                tried += 1
                shown = subject.again(target=target.get_submodule(child), calls=inputs[child], **_without(subject))
            except OutOfTime:
                return _line(target, name, f", after {tried - 1} of its parts: the time was over")
            if subject.shows(shown, kinds):
                name = child
                break
        else:
            return _line(target, name, "")


def _line(target: torch.nn.Module, name: str, remark: str) -> list[str]:
    if not name:
        return []
    kind = type(target.get_submodule(name)).__name__
    return [f"smallest module: {name} ({kind}) alone shows the same{remark}"]


def _without(subject: Subject) -> dict[str, Any]:
    """What speaks of the whole model's arguments and outputs has no meaning for a part of it."""
    return {"dynamic_dims": None, "train": bool(subject.work.train)}


def children(target: torch.nn.Module, name: str) -> list[str]:
    """The names of a submodule's children; of those that are only called through their own, such as a ModuleList."""
    module = target.get_submodule(name)
    found = []
    for child, inner in module.named_children():
        path = f"{name}.{child}".lstrip(".")
        is_list = isinstance(inner, (torch.nn.ModuleList, torch.nn.ModuleDict))
        found += children(target, path) if is_list else [path]
    return found


def captured(target: torch.nn.Module, calls: Sequence[Call]) -> Inputs:
    """What each submodule was first given in each call, in eager."""
    copied = copy.deepcopy(target)
    inputs: Inputs = {}
    number = 0

    def note(name: str) -> Any:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            held = inputs.setdefault(name, [])
            if len(held) == number:
                taken = tree_map(_taken, (args, dict(kwargs)))
                held.append(replace(calls[number], args=taken[0], kwargs=taken[1], actions=()))

        return hook

    for name, module in copied.named_modules():
        if name:
            module.register_forward_pre_hook(note(name), with_kwargs=True)
    for call in calls:
        args, kwargs = copy.deepcopy((call.args, dict(call.kwargs)))
        for action in call.actions:
            action(copied)
        with torch.compiler.set_stance("force_eager"):
            copied(*args, **kwargs)
        number += 1
    return inputs


def _taken(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)
