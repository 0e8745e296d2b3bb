"""The smallest submodule that still shows the finding."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..legs.calls import Call
from .subject import OutOfTime, Subject

Inputs = dict[str, list[Call]]


def smallest_module(subject: Subject) -> list[str]:
    """Go down from module to module, as long as one alone shows a finding of the same kind."""
    target, calls = subject.work.target, subject.work.calls
    if not isinstance(target, torch.nn.Module) or subject.work.optimizer is not None:
        return []
    inputs = captured(target, calls)
    # What names the whole model's arguments and outputs has no meaning for a part of it.
    changes: dict[str, Any] = {"dynamic_dims": None, "train": bool(subject.work.train)}
    name, tried, remark = "", 0, ""
    parts = children(target, name)
    try:
        while parts:
            child = parts.pop(0)
            if len(inputs.get(child, ())) != len(calls):
                continue
            report = subject.again(target=target.get_submodule(child), calls=inputs[child], **changes)
            tried += 1
            if subject.shows(report, subject.kinds):
                name, parts = child, children(target, child)
    except OutOfTime:
        remark = f", after {tried} of its parts: the time was over"
    if not name:
        return []
    kind = type(target.get_submodule(name)).__name__
    subject.report.fault = replace(subject.report.fault, module=name, module_type=kind)
    return [f"smallest module: {name} ({kind}) alone shows the same{remark}"]


def children(target: torch.nn.Module, name: str) -> list[str]:
    """The names of a submodule's children; of those that are only called through their own, such as a ModuleList."""
    paths = []
    for child, inner in target.get_submodule(name).named_children():
        path = f"{name}.{child}".lstrip(".")
        is_list = isinstance(inner, (torch.nn.ModuleList, torch.nn.ModuleDict))
        paths += children(target, path) if is_list else [path]
    return paths


def captured(target: torch.nn.Module, calls: Sequence[Call]) -> Inputs:
    """What each submodule was first given in each call, in eager."""
    copied = copy.deepcopy(target)
    inputs: Inputs = {}
    number = 0

    def note(name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        taken = inputs.setdefault(name, [])
        if len(taken) == number:
            own_args, own_kwargs = tree_map(_copied, (args, dict(kwargs)))
            taken.append(replace(calls[number], args=own_args, kwargs=own_kwargs, actions=()))

    for name, module in copied.named_modules():
        if name:
            module.register_forward_pre_hook(partial(note, name), with_kwargs=True)
    for number, call in enumerate(calls):  # noqa: B007 - read by note
        args, kwargs = copy.deepcopy((call.args, dict(call.kwargs)))
        for action in call.actions:
            action(copied)
        with torch.compiler.set_stance("force_eager"):
            copied(*args, **kwargs)
    return inputs


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf
