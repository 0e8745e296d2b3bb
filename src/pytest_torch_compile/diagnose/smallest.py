"""Find the smallest submodule that fails in the same way as the whole target."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from types import FunctionType
from typing import Any, get_args

import torch

from .._torch.trees import tree_map
from ..findings import CompileReport, WrongResult
from ..legs.calls import Call
from ..legs.leg import Leg
from ..legs.targets import modules_of
from ..legs.work import Work
from .subject import OutOfTime, Subject

Inputs = dict[str, list[Call]]


@dataclass(frozen=True)
class Part:
    """A submodule of a target: its path, and its arguments in each call."""

    name: str
    module: torch.nn.Module
    calls: list[Call]

    def changes(self, whole: Work) -> dict[str, Any]:
        """Return the changes that turn a check of the whole target into a check of this part. Options that refer to
        arguments by name are omitted.
        """
        alone = {"optimizer": None, "steps": 1, "dynamic_dims": None}
        return {"target": self.module, "calls": self.calls, "train": whole.trains, **alone}


def smallest_module(subject: Subject) -> list[str]:
    """Return a line about the smallest submodule that fails when it is checked alone. The submodule must have a finding
    of the same kind as the failed check, or a finding that can cause the failed check's finding.
    """
    kinds = set(subject.kinds)
    if subject.work.optimizer is not None and kinds & set(get_args(WrongResult)):
        kinds |= {"numerics", "gradient"}  # a wrong parameter after an optimizer step may come from a wrong gradient
    if "exception" in kinds:
        kinds.add("metadata")  # a part may raise because another part's outputs have wrong metadata
    smallest, shown, tried, remark = None, set[str](), 0, ""
    parts = parts_of(subject.work)
    candidates = children(parts, "")
    try:
        while candidates:
            part = candidates.pop(0)
            if len(part.calls) != len(subject.work.calls):  # some calls to the target do not call this module
                continue
            report, part = _checked(subject, part)
            tried += 1
            if report is not None and subject.shows(report, kinds):
                shown = {finding.kind for finding in report.findings}
                smallest, candidates = part, children(parts, part.name)
    except OutOfTime:
        remark = f"; a smaller module may fail too, but the time limit was reached (modules tried: {tried})"
    if smallest is None:
        return []
    kind = type(smallest.module).__name__
    subject.report.fault = replace(subject.report.fault, module=smallest.name, module_type=kind)
    if shown & subject.kinds and subject.report.fault.stage:
        subject.smallest = smallest.changes(subject.work)
    same = (
        "the same finding"
        if shown & subject.kinds
        else f"a finding that may be the cause ({', '.join(sorted(shown & kinds))})"
    )
    return [f"smallest module: {smallest.name} ({kind}) has {same} when it is checked alone{remark}"]


def _checked(subject: Subject, part: Part) -> tuple[CompileReport | None, Part]:
    """Check one submodule with its recorded arguments. If eager code rejects arguments that require gradients, detach
    the arguments and check the submodule again.
    """
    backend = _cheapest_backend(subject)
    report = subject.again(backend, **part.changes(subject.work))
    if report is not None:
        return report, part

    # A module that writes to its input in place rejects a leaf tensor that requires a gradient. In the whole model, the
    # input was the result of an op.
    def detached(leaf: Any) -> Any:
        return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf

    calls = []
    for call in part.calls:
        args, kwargs = tree_map(detached, (call.args, dict(call.kwargs)))
        calls.append(replace(call, args=args, kwargs=kwargs))
    part = replace(part, calls=calls)
    return subject.again(backend, **part.changes(subject.work)), part


def _cheapest_backend(subject: Subject) -> str | None:
    """Return the backend of the first stage that causes the finding. If the stage is unknown, return None, which
    selects the check's backend.
    """
    if subject.compiling.wrapper is not None:
        return None
    if subject.kinds <= {"graph-break", "recompile"}:
        return "eager"
    stage = subject.report.fault.stage
    return stage if stage not in ("", "inductor") else None


def parts_of(work: Work) -> dict[str, Part]:
    """Return the target's submodules by path, each with the arguments of its calls in eager. If the target is a
    function, return the modules that the function uses as closed-over or global variables, and their submodules.
    """
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
    """Return the modules that a function calls through global names."""
    if not isinstance(target, FunctionType):
        return {}
    used = {name: target.__globals__.get(name) for name in target.__code__.co_names}
    return {name: module for name, module in used.items() if isinstance(module, torch.nn.Module)}


def children(parts: Mapping[str, Part], name: str) -> list[Part]:
    """Return the children of a module. A container that is never called, such as a ModuleList, is replaced with its
    children.
    """
    below = [part for part in parts.values() if part.name.startswith(f"{name}." if name else "") and part.name != name]
    called = [part for part in below if part.calls]
    return [part for part in called if not any(part.name.startswith(f"{other.name}.") for other in called)]


@dataclass
class _Capture:
    """The captured arguments of modules; ``number`` counts the calls to the whole target."""

    inputs: Inputs = field(default_factory=dict)
    call: Call = field(default_factory=Call)
    number: int = 0


# Objects that a hook references would count as model state and be restored after the run, so the hooks store captured
# arguments in this global list.
_captures: list[_Capture] = []


def captured(work: Work) -> Inputs:
    """Run the calls in eager. For each submodule, return the arguments of its first call within each call to the
    target.
    """
    with ExitStack() as stack:
        _captures.append(capture := _Capture())
        stack.callback(_captures.pop)
        # Register the hooks before ``Leg`` takes its snapshot of the model, because the snapshot includes hooks.
        for name, module in _below({**modules_of(work.target), **_global_modules(work.target)}):
            handle = module.register_forward_pre_hook(partial(_note, name), with_kwargs=True)
            stack.callback(handle.remove)
        leg = Leg(work)
        for capture.number, capture.call in enumerate(work.calls):
            leg.run(capture.number)
    return capture.inputs


def _note(name: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    capture = _captures[-1]
    calls = capture.inputs.setdefault(name, [])
    if len(calls) == capture.number:
        own_args, own_kwargs = tree_map(_copied, (args, dict(kwargs)))
        calls.append(replace(capture.call, args=own_args, kwargs=own_kwargs, actions=()))


def _copied(leaf: Any) -> Any:
    """Copy one value in a module's arguments before the module runs, because some values (such as a key cache) grow in
    each call.
    """
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)
    try:
        return copy.deepcopy(leaf)
    except Exception:  # copying may raise any exception
        return leaf
