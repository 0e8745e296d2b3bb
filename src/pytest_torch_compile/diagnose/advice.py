"""Advice that was tried: changes for recompiles, each applied and checked, told only where it made the budget hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..findings import CompileReport
from ..legs.calls import Call
from ..legs.leg import argument_names
from .subject import Subject

KINDS = {"recompile", "eager-fallback"}
MULTIPLES = (8, 16, 32, 64)
Dims = dict[str | int, tuple[int, ...]]


def advice(subject: Subject) -> list[str]:
    """One line for each change that made the budget hold, with the result."""
    if not subject.kinds & KINDS or subject.compiling.wrapper is not None:
        return []
    return [line for what, changes in _candidates(subject) if (line := _tried(subject, what, changes))]


def _tried(subject: Subject, what: str, changes: Mapping[str, Any]) -> str:
    """Try the change without code generation, then with the check's own backend if there is time for it."""
    light = subject.again(backend="eager", **changes)
    if light is None or light.findings:
        return ""
    own = subject.compiling.backend
    if own == "eager":
        return f"tried: {what}: {_result(subject, light)}"
    if _cost(subject) > subject.left:
        return f"tried with backend eager: {what}: {_result(subject, light)}"
    full = subject.again(**changes)
    return f"tried: {what}: {_result(subject, full)}" if full is not None and not full.findings else ""


def _cost(subject: Subject) -> float:
    return subject.report.observation.compile_seconds.total


def _result(subject: Subject, report: CompileReport) -> str:
    counted, before = len(report.recompiles), len(subject.report.recompiles)
    return f"{counted} recompile{'' if counted == 1 else 's'} instead of {before}" + (
        ", no eager fallback" if subject.report.fallbacks else ""
    )


def _candidates(subject: Subject) -> Iterator[tuple[str, dict[str, Any]]]:
    calls, names = subject.work.calls, argument_names(subject.work.target)
    numbers = changing_numbers(calls, names)
    if numbers:
        changed = [_map(call, names, numbers, _as_tensor) for call in calls]
        yield f"pass {_listed(numbers)} as a tensor in place of a Python number", {"calls": changed}
    dims = changing_dims(calls, names)
    if dims and not subject.work.dynamic_dims:
        yield f"dynamic_dims={_shown(dims)}", {"dynamic_dims": dims}
    if dims and not subject.compiling.dynamic:
        yield "dynamic=True", {"dynamic": True}
    for multiple in MULTIPLES if dims else ():
        padded = [_padded(call, names, dims, multiple) for call in calls]
        if _shapes(padded, names, dims) <= 1 + int(subject.report.budget["max_recompiles"]):
            yield f"pad {_listed(dims)} to a multiple of {multiple}", {"calls": padded}
            return


def named(call: Call, names: Sequence[str]) -> dict[str | int, Any]:
    """The arguments of a call by name, or by position where the target names none."""
    given: dict[str | int, Any] = {(names[i] if i < len(names) else i): value for i, value in enumerate(call.args)}
    given.update(call.kwargs)
    return given


def changing_dims(calls: Sequence[Call], names: Sequence[str]) -> Dims:
    """For each tensor argument the dimensions that change over the calls, apart from 0 and 1, which specialise."""
    seen: dict[str | int, list[tuple[int, ...]]] = {}
    for call in calls:
        for name, value in named(call, names).items():
            if isinstance(value, torch.Tensor):
                seen.setdefault(name, []).append(tuple(value.shape))
    found: Dims = {}
    for name, shapes in seen.items():
        if len({len(shape) for shape in shapes}) > 1:
            continue
        columns = list(zip(*shapes, strict=True))
        dims = tuple(i for i, sizes in enumerate(columns) if len(set(sizes)) > 1 and min(sizes) > 1)
        if dims:
            found[name] = dims
    return found


def changing_numbers(calls: Sequence[Call], names: Sequence[str]) -> list[str | int]:
    """The arguments that are Python numbers and change over the calls."""
    seen: dict[str | int, list[Any]] = {}
    for call in calls:
        for name, value in named(call, names).items():
            seen.setdefault(name, []).append(value)
    return [
        name
        for name, values in seen.items()
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
        and len(set(values)) > 1
    ]


def _map(
    call: Call, names: Sequence[str], chosen: Sequence[str | int], change: Callable[[str | int, Any], Any]
) -> Call:
    """The call with the chosen arguments changed."""
    args = []
    for i, value in enumerate(call.args):
        name = names[i] if i < len(names) else i
        args.append(change(name, value) if name in chosen else value)
    kwargs = {name: change(name, value) if name in chosen else value for name, value in call.kwargs.items()}
    return replace(call, args=tuple(args), kwargs=kwargs)


def _as_tensor(name: str | int, value: Any) -> torch.Tensor:
    return torch.tensor(value, device="cpu")


def _padded(call: Call, names: Sequence[str], dims: Dims, multiple: int) -> Call:
    def pad(name: str | int, tensor: torch.Tensor) -> torch.Tensor:
        missing = [(-size) % multiple if i in dims[name] else 0 for i, size in enumerate(tensor.shape)]
        flat = [number for more in reversed(missing) for number in (0, more)]
        with torch.no_grad():
            padded = torch.nn.functional.pad(tensor, flat)
        return padded.requires_grad_(tensor.requires_grad)

    return _map(call, names, list(dims), pad)


def _shapes(calls: Sequence[Call], names: Sequence[str], dims: Dims) -> int:
    """How many different sets of shapes the calls have."""
    return len({tuple(tuple(named(call, names)[name].shape) for name in dims) for call in calls})


def _shown(dims: Dims) -> str:
    parts = [f"{name!r}: {found[0] if len(found) == 1 else found}" for name, found in dims.items()]
    return "{" + ", ".join(parts) + "}"


def _listed(names: Sequence[str | int] | Dims) -> str:
    return ", ".join(str(name) if isinstance(name, str) else f"argument {name}" for name in names)
