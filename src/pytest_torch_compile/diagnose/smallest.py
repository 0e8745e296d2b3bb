"""The smallest submodule that still shows the finding."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import torch
from torch.utils._pytree import tree_map

from ..findings import CompileReport, WrongResult
from ..legs.calls import Call
from ..legs.leg import Leg, Work
from ..legs.targets import modules_of
from .subject import OutOfTime, Subject

Inputs = dict[str, list[Call]]


@dataclass(frozen=True)
class Part:
    """A submodule of a target, its path, and what it was given in each call."""

    name: str
    module: torch.nn.Module
    calls: list[Call]

    def changes(self, whole: Work) -> dict[str, Any]:
        """What makes a check of the whole one of the part. Names of the whole's arguments have no meaning for it."""
        alone = {"optimizer": None, "steps": 1, "dynamic_dims": None}
        return {"target": self.module, "calls": self.calls, "train": bool(whole.train), **alone}


def smallest_module(subject: Subject) -> list[str]:
    """Go down from module to module, as long as one alone shows a finding of the same kind."""
    kinds = set(subject.kinds)
    if subject.work.optimizer is not None and kinds & set(get_args(WrongResult)):
        kinds |= {"numerics", "gradient"}  # a step of the optimizer shows wrong gradients in the parameters
    if "exception" in kinds:
        kinds.add("metadata")  # what one part returns, another may not take
    smallest, shown, tried, remark = None, set[str](), 0, ""
    parts = parts_of(subject.work)
    candidates = children(parts, "")
    try:
        while candidates:
            part = candidates.pop(0)
            if len(part.calls) != len(subject.work.calls):
                continue
            report, part = _checked(subject, part)
            tried += 1
            if report is not None and subject.shows(report, kinds):
                shown = {finding.kind for finding in report.findings}
                smallest, candidates = part, children(parts, part.name)
    except OutOfTime:
        remark = f", after {tried} of its parts: the time was over"
    if smallest is None:
        return []
    kind = type(smallest.module).__name__
    subject.report.fault = replace(subject.report.fault, module=smallest.name, module_type=kind)
    if shown & subject.kinds and subject.report.fault.stage:
        subject.smallest = smallest.changes(subject.work)
    same = "the same" if shown & subject.kinds else f"findings of the kind {', '.join(sorted(shown & kinds))}"
    return [f"smallest module: {smallest.name} ({kind}) alone shows {same}{remark}"]


def _checked(subject: Subject, part: Part) -> tuple[CompileReport | None, Part]:
    """A check of one part with what it was given, or without gradients for that if eager does not run so."""
    backend = _cheapest_backend(subject)
    report = subject.again(backend, **part.changes(subject.work))
    if report is not None:
        return report, part
    # A module that writes to its input in place takes the result of an op, and no leaf that requires a gradient.
    part = replace(part, calls=[_without_gradient(one) for one in part.calls])
    return subject.again(backend, **part.changes(subject.work)), part


def _without_gradient(call: Call) -> Call:
    def detached(leaf: Any) -> Any:
        return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf

    args, kwargs = tree_map(detached, (call.args, dict(call.kwargs)))
    return replace(call, args=args, kwargs=kwargs)


def _cheapest_backend(subject: Subject) -> str | None:
    """The first stage that shows it; None, the check's own, where the stage is not known."""
    if subject.compiling.wrapper is not None:
        return None
    if subject.kinds <= {"graph-break", "recompile"}:
        return "eager"
    stage = subject.report.fault.stage
    return stage if stage not in ("", "inductor") else None


def parts_of(work: Work) -> dict[str, Part]:
    """The submodules that eager called, by path; of a function those of the modules that it reaches."""
    inputs = captured(work)
    return {
        name: Part(name, module, inputs.get(name, []))
        for name, module in _below({**modules_of(work.target), **_global_modules(work.target)})
    }


def _below(roots: Mapping[str, torch.nn.Module]) -> Iterator[tuple[str, torch.nn.Module]]:
    for prefix, root in roots.items():
        for inner, module in root.named_modules():
            if name := f"{prefix}.{inner}".strip("."):
                yield name, module


def _global_modules(target: Any) -> dict[str, torch.nn.Module]:
    """The modules that a function calls by a global name."""
    code, names = getattr(target, "__code__", None), getattr(target, "__globals__", {})
    used = {name: names.get(name) for name in (code.co_names if code else ())}
    return {name: module for name, module in used.items() if isinstance(module, torch.nn.Module)}


def children(parts: Mapping[str, Part], name: str) -> list[Part]:
    """The parts right below one; of those that are never called, such as a ModuleList, the ones below them."""
    below = [part for part in parts.values() if part.name.startswith(f"{name}." if name else "") and part.name != name]
    called = [part for part in below if part.calls]
    return [part for part in called if not any(part.name.startswith(f"{other.name}.") for other in called)]


@dataclass
class _Capture:
    """What modules are given; ``number`` counts the calls of the whole."""

    inputs: Inputs = field(default_factory=dict)
    call: Call = field(default_factory=Call)
    number: int = 0


# What a hook reaches would be taken for state of the model, and put back after the leg: it reaches nothing.
_captures: list[_Capture] = []


def captured(work: Work) -> Inputs:
    """What each submodule was first given in each call, in eager."""
    with ExitStack() as stack:
        _captures.append(capture := _Capture())
        stack.callback(_captures.pop)
        # Before the leg notes their state, of which hooks are a part.
        _watch({**modules_of(work.target), **_global_modules(work.target)}, stack)
        leg = Leg(work)
        for capture.number, capture.call in enumerate(work.calls):
            leg.run(capture.number)
    return capture.inputs


def _watch(roots: Mapping[str, torch.nn.Module], stack: ExitStack) -> None:
    for name, module in _below(roots):
        handle = module.register_forward_pre_hook(partial(_note, name), with_kwargs=True)
        stack.callback(handle.remove)


def _note(name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    capture = _captures[-1]
    calls = capture.inputs.setdefault(name, [])
    if len(calls) == capture.number:
        own_args, own_kwargs = tree_map(_copied, (args, dict(kwargs)))
        calls.append(replace(capture.call, args=own_args, kwargs=own_kwargs, actions=()))


def _copied(leaf: Any) -> Any:
    """A leaf of the arguments as it is before the module runs: a cache of keys grows in each call."""
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)
    try:
        return copy.deepcopy(leaf)
    except Exception:  # a class may raise anything when it is copied
        return leaf
